#include "model/block/step_rows.h"

#include <doctest/doctest.h>

#include <vector>

namespace ballast::model {
namespace {

std::vector<std::size_t> sequences_of(const StepRows& rows) {
  std::vector<std::size_t> sequences;
  for (std::size_t row = 0; row < rows.count(); ++row) sequences.push_back(rows.sequence_of(row));
  return sequences;
}

TEST_CASE("rows of a step belong to the sequence whose range they are in, and sequences without rows are skipped") {
  const std::vector<std::size_t> ends = {2, 2, 5, 6};
  const StepRows rows(ends);
  CHECK(rows.count() == 6);
  CHECK(rows.chosen().empty());
  CHECK(sequences_of(rows) == std::vector<std::size_t>{0, 0, 2, 2, 2, 3});
  CHECK(rows.first_of(0) == 0);
  CHECK(rows.first_of(2) == 2);
  CHECK(rows.first_of(3) == 5);
}

TEST_CASE("chosen rows keep their sequence") {
  const std::vector<std::size_t> ends = {2, 5};
  const std::vector<std::size_t> chosen = {4, 1, 4};
  CHECK(sequences_of(StepRows(ends).choose(chosen)) == std::vector<std::size_t>{1, 0, 1});
  CHECK(StepRows(ends).choose({}).count() == 0);
}

TEST_CASE("rows outside of a step have no sequences") {
  CHECK(StepRows::outside(3).count() == 3);
  CHECK(!StepRows::outside(3).have_sequences());
  CHECK(StepRows(std::vector<std::size_t>{}).count() == 0);
}

}  // namespace
}  // namespace ballast::model
