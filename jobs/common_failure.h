// Makes a failure on one rank a failure on all ranks.
#ifndef BALLAST_JOBS_COMMON_FAILURE_H_
#define BALLAST_JOBS_COMMON_FAILURE_H_

#include <optional>
#include <string>

#include "ballast/error.h"
#include "ballast/ranks.h"

namespace ballast::jobs {

/// Returns part(), which must not call any function of the ranks. If it throws an Error on any rank, all throw the
/// first one's, so that all ranks make the same calls afterwards. Is called on every rank.
template <typename Part>
auto fail_together(Ranks& ranks, const Part& part) {
  if (ranks.size() == 1) return part();
  std::optional<decltype(part())> result;
  std::string failure;
  try {
    result.emplace(part());
  } catch (const Error& error) {
    failure = error.what();
  }
  for (const std::string& other : ranks.gather(failure)) {
    if (!other.empty()) throw Error(other);
  }
  return *std::move(result);
}

}  // namespace ballast::jobs

#endif  // BALLAST_JOBS_COMMON_FAILURE_H_
