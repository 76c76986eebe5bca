#include "serve/scheduler/fair_queue.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ballast::serve {
namespace {

std::string order_of(FairQueue<char>& queue) {
  std::string order;
  while (!queue.empty()) {
    order += queue.front();
    queue.pop();
  }
  return order;
}

TEST_CASE("one user's items come in order") {
  FairQueue<char> queue(10);
  for (const char item : {'a', 'b', 'c'}) queue.push("u", item, 100);
  CHECK(queue.size() == 3);
  CHECK(order_of(queue) == "abc");
  CHECK(queue.size() == 0);
}

TEST_CASE("a user with one item does not wait for all items of another user") {
  FairQueue<char> queue(10);
  for (int i = 0; i < 6; ++i) queue.push("many", 'm', 10);
  queue.push("one", '1', 10);
  CHECK(order_of(queue) == "m1mmmmm");
}

TEST_CASE("users get equal shares by cost, not by number of items") {
  FairQueue<char> queue(10);
  for (int i = 0; i < 4; ++i) queue.push("dear", 'D', 30);
  for (int i = 0; i < 12; ++i) queue.push("cheap", 'c', 10);
  const std::string order = order_of(queue);
  int dear = 0, cheap = 0;
  for (const char item : order.substr(0, 12)) (item == 'D' ? dear : cheap) += item == 'D' ? 30 : 10;
  CHECK(std::abs(dear - cheap) <= 30);
  CHECK(order.size() == 16);
}

TEST_CASE("an item that was returned to the queue comes first") {
  FairQueue<char> queue(10);
  queue.push("a", 'a', 10);
  queue.push("b", 'b', 10);
  queue.push_first("b", 'B');
  CHECK(order_of(queue).front() == 'B');
  queue.push_first("new", 'N');
  CHECK(order_of(queue) == "N");
}

TEST_CASE("items can be removed from any position") {
  FairQueue<char> queue(10);
  for (const char item : {'a', 'x', 'b'}) queue.push("u", item, 1);
  queue.push("v", 'x', 1);
  queue.remove_if([](char item) { return item == 'x'; });
  CHECK(queue.size() == 2);
  CHECK(order_of(queue) == "ab");
}

}  // namespace
}  // namespace ballast::serve
