#include "serve/service/worker_pool.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "served.h"

namespace ballast::serve {
namespace {

using test::Event;

TEST_CASE("tasks of a strand run in their order, and those of a strand that is held once it is released") {
  WorkerPool pool(3);
  std::vector<int> ran;
  const auto strand = std::make_shared<Strand>(pool, Strand::Begin::kHeld);
  for (int i = 0; i < 100; ++i) strand->post([&ran, i] { ran.push_back(i); });
  CHECK(ran.empty());
  strand->release();
  pool.finish();
  REQUIRE(ran.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(ran[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a task that throws ends its strand and no other") {
  WorkerPool pool(2);
  int after = 0;
  int failures = 0;
  int others = 0;
  const auto strand = std::make_shared<Strand>(pool, Strand::Begin::kHeld);
  strand->on_failure([&] { ++failures; });
  strand->post([] { throw std::bad_alloc(); });
  strand->post([&] { ++after; });
  const auto other = std::make_shared<Strand>(pool, Strand::Begin::kHeld);
  other->on_failure([] { throw std::runtime_error("a failure that fails"); });
  other->post([&] { ++others; });
  other->post([] { throw 5; });
  strand->release();
  other->release();
  const auto third = std::make_shared<Strand>(pool);
  Event ran;
  third->post([&] { ran.happen(); });
  ran.wait();
  pool.finish();
  CHECK(after == 0);
  CHECK(failures == 1);
  CHECK(others == 1);
}

TEST_CASE("after fail() a strand drops its tasks, and calls its handler once") {
  WorkerPool pool(1);
  int tasks = 0;
  int failures = 0;
  const auto strand = std::make_shared<Strand>(pool, Strand::Begin::kHeld);
  strand->on_failure([&] { ++failures; });
  strand->post([&] { ++tasks; });
  strand->fail();
  strand->fail();
  strand->release();
  strand->post([&] { ++tasks; });
  pool.finish();
  CHECK(tasks == 0);
  CHECK(failures == 1);
}

TEST_CASE("a pool that ends waits for what tasks post") {
  WorkerPool pool(2);
  int left = 50;
  const auto strand = std::make_shared<Strand>(pool);
  std::function<void()> next = [&] {
    if (--left > 0) strand->post(next);
  };
  strand->post(next);
  pool.finish();
  CHECK(left == 0);
}

}  // namespace
}  // namespace ballast::serve
