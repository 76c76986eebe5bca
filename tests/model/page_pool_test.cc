#include "model/cache/page_pool.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace ballast::model {
namespace {

TEST_CASE("a released page is reused, and each size has its own pages") {
  const std::shared_ptr<PagePool> pool = PagePool::make();
  PageRef first = pool->take(100);
  const std::byte* address = first.data();
  CHECK(pool->bytes_in_use() == 100);
  const PageRef other = pool->take(200);
  first = PageRef();
  CHECK(pool->bytes_in_use() == 200);
  const PageRef larger = pool->take(200);
  CHECK(larger.data() != address);
  CHECK(pool->take(100).data() == address);
  CHECK(pool->bytes() == 500);
}

TEST_CASE("a page is released with its last reference") {
  const std::shared_ptr<PagePool> pool = PagePool::make();
  PageRef first = pool->take(64);
  CHECK(!first.shared());
  PageRef second = first;
  CHECK(first.shared());
  CHECK(second.data() == first.data());
  first = PageRef();
  CHECK(!second.shared());
  CHECK(pool->bytes_in_use() == 64);
  const PageRef moved = std::move(second);
  CHECK(!moved.shared());
}

TEST_CASE("pages are aligned for any vector and overlap with none, in small slabs and in large ones") {
  const std::shared_ptr<PagePool> pool = PagePool::make();
  std::vector<PageRef> pages;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t bytes = i * i * i % 100'003 + 1;
    PageRef& page = pages.emplace_back(pool->take(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(page.data()) % 64 == 0);
    std::memset(page.data(), static_cast<int>(i), page.bytes());
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const std::vector<std::byte> expected(pages[i].bytes(), static_cast<std::byte>(i));
    CHECK(std::memcmp(pages[i].data(), expected.data(), expected.size()) == 0);  // and sanitizers find no error
  }
}

TEST_CASE("a pool lives as long as a page") {
  PageRef page;
  {
    const std::shared_ptr<PagePool> pool = PagePool::make();
    page = pool->take(64);
  }
  std::memset(page.data(), 1, page.bytes());
  const std::vector<std::byte> expected(page.bytes(), std::byte{1});
  CHECK(std::memcmp(page.data(), expected.data(), expected.size()) == 0);  // and sanitizers find no error
}

TEST_CASE("threads acquire, share and release pages concurrently, and may write to unshared pages") {
  const std::shared_ptr<PagePool> pool = PagePool::make();
  const PageRef common = pool->take(256);
  std::memset(common.data(), 7, common.bytes());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t, mine = common]() mutable {
      for (int i = 0; i < 2000; ++i) {
        PageRef own = pool->take(256);
        std::memcpy(own.data(), mine.data(), own.bytes());
        if (own.data()[i % 256] != std::byte{7}) ++wrong[t];
        const PageRef before = std::exchange(mine, own);
        if (!own.shared()) ++wrong[t];
        if (i % 3 != 0) mine = before;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
  CHECK(pool->bytes_in_use() == 256);
}

}  // namespace
}  // namespace ballast::model
