// A fair queue: deficit round robin (Shreedhar and Varghese 1995) over the users with waiting items.
#ifndef BALLAST_SERVE_SCHEDULER_FAIR_QUEUE_H_
#define BALLAST_SERVE_SCHEDULER_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <string>
#include <string_view>
#include <utility>

namespace ballast::serve {

/// Items of several users, each with a cost. All users get the same cost per round, independent of their number of
/// items; the items of one user keep their order. One thread.
template <class Item>
class FairQueue {
 public:
  /// `quantum` is the cost that a user may take per round.
  explicit FairQueue(std::size_t quantum) : quantum_(quantum) {}

  bool empty() const { return users_.empty(); }
  std::size_t size() const { return size_; }

  void push(std::string_view user, Item item, std::size_t cost) {
    auto found = std::ranges::find(users_, user, &User::name);
    if (found == users_.end()) found = users_.insert(users_.end(), User{.name = std::string(user)});
    found->items.emplace_back(std::move(item), cost);
    ++size_;
  }

  /// Puts an item that was taken back at the front of the queue.
  void push_first(std::string_view user, Item item) {
    auto found = std::ranges::find(users_, user, &User::name);
    if (found == users_.end()) {
      users_.push_front({.name = std::string(user)});
    } else {
      users_.splice(users_.begin(), users_, found);
    }
    users_.front().items.emplace_front(std::move(item), std::size_t{0});  // its cost is already paid
    ++size_;
  }

  /// Returns the next item. Precondition: not empty.
  Item& front() {
    for (;;) {
      User& user = users_.front();
      if (!user.in_turn) {
        user.credit += quantum_;
        user.in_turn = true;
      }
      if (user.items.front().second <= user.credit || users_.size() == 1) return user.items.front().first;
      user.in_turn = false;
      users_.splice(users_.end(), users_, users_.begin());
    }
  }

  /// Removes front().
  void pop() {
    front();
    User& user = users_.front();
    user.credit -= std::min(user.credit, user.items.front().second);
    user.items.pop_front();
    --size_;
    if (user.items.empty()) users_.pop_front();
  }

  /// Removes all items for which `condition(item)` holds.
  template <class Condition>
  void remove_if(const Condition& condition) {
    for (auto user = users_.begin(); user != users_.end();) {
      size_ -= std::erase_if(user->items, [&](auto& item) { return condition(item.first); });
      user = user->items.empty() ? users_.erase(user) : std::next(user);
    }
  }

 private:
  struct User {
    std::string name;
    std::deque<std::pair<Item, std::size_t>> items{};
    std::size_t credit = 0;
    bool in_turn = false;
  };

  std::size_t quantum_;
  std::list<User> users_;  ///< the first one is next; all have items
  std::size_t size_ = 0;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_FAIR_QUEUE_H_
