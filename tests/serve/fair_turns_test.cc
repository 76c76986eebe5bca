#include "serve/scheduler/fair_turns.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

namespace ballast::serve {
namespace {

struct Worker {
  bool has_work = true;
  double cost = 1;   ///< seconds of a turn
  double spent = 0;  ///< seconds
};

void take_turns(FairTurns<Worker>& turns, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto turn = turns.next([](const Worker& worker) { return worker.has_work; });
    REQUIRE(turn.member != nullptr);
    turn.member->spent += turn.member->cost;
    turns.charge(*turn.member, turn.member->cost);
  }
}

TEST_CASE("members with turns of different lengths get the same time") {
  std::array<Worker, 3> workers{};
  workers[1].cost = 0.1;
  workers[2].cost = 3;
  FairTurns<Worker> turns;
  for (Worker& worker : workers) turns.add(worker, 1);
  take_turns(turns, 1000);
  for (const Worker& worker : workers) CHECK(worker.spent == doctest::Approx(workers[0].spent).epsilon(0.1));
}

TEST_CASE("a member with twice the share gets twice the time") {
  std::array<Worker, 2> workers{};
  FairTurns<Worker> turns;
  turns.add(workers[0], 1);
  turns.add(workers[1], 2);
  take_turns(turns, 300);
  CHECK(workers[1].spent == doctest::Approx(2 * workers[0].spent).epsilon(0.05));
}

TEST_CASE("a member that had no work has saved no time, and one that enters does not wait for the others") {
  std::array<Worker, 3> workers{};
  FairTurns<Worker> turns;
  turns.add(workers[0], 1);
  turns.add(workers[1], 1);
  workers[1].has_work = false;
  take_turns(turns, 100);
  CHECK(workers[0].spent == 100);
  workers[1].has_work = true;
  turns.add(workers[2], 1);
  take_turns(turns, 30);
  CHECK(workers[0].spent == doctest::Approx(110).epsilon(0.02));
  CHECK(workers[1].spent == doctest::Approx(10).epsilon(0.2));
  CHECK(workers[2].spent == doctest::Approx(10).epsilon(0.2));
}

TEST_CASE("a turn knows whether others wait; removed members get none") {
  std::array<Worker, 2> workers{};
  FairTurns<Worker> turns;
  const auto has_work = [](const Worker& worker) { return worker.has_work; };
  CHECK(turns.next(has_work).member == nullptr);
  turns.add(workers[0], 1);
  CHECK_FALSE(turns.next(has_work).others_wait);
  turns.add(workers[1], 1);
  CHECK(turns.next(has_work).others_wait);
  workers[0].has_work = false;
  CHECK_FALSE(turns.next(has_work).others_wait);
  CHECK(turns.remove(workers[1]));
  CHECK_FALSE(turns.remove(workers[1]));
  CHECK(turns.next(has_work).member == nullptr);
}

}  // namespace
}  // namespace ballast::serve
