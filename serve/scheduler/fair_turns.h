// Divides the time of one thread among members by their shares: stride scheduling (Waldspurger and Weihl 1995).
#ifndef BALLAST_SERVE_SCHEDULER_FAIR_TURNS_H_
#define BALLAST_SERVE_SCHEDULER_FAIR_TURNS_H_

#include <algorithm>
#include <vector>

namespace ballast::serve {

/// Members that have work take turns: next is the one that has spent the least time in relation to its share. A member
/// that had no work does not save time for later. One thread at a time.
template <class Member>
class FairTurns {
 public:
  /// A member with a `share` of 2 gets twice the time of one with 1. The member must outlive its membership.
  void add(Member& member, double share) { entries_.push_back({.member = &member, .share = share, .spent = now_}); }

  /// Returns whether it was a member.
  bool remove(const Member& member) {
    return std::erase_if(entries_, [&](const Entry& entry) { return entry.member == &member; }) > 0;
  }

  template <class Action>
  void for_each(const Action& action) const {
    for (const Entry& entry : entries_) action(*entry.member);
  }

  /// Returns the first member for which `condition(member)` holds; null if there is none.
  template <class Condition>
  Member* find(const Condition& condition) const {
    for (const Entry& entry : entries_) {
      if (condition(*entry.member)) return entry.member;
    }
    return nullptr;
  }

  struct Turn {
    Member* member = nullptr;  ///< null: no member has work
    bool others_wait = false;  ///< another member has work, too
  };

  /// Returns the next turn. `has_work(member)` is called once for each member.
  template <class HasWork>
  Turn next(const HasWork& has_work) {
    Entry* least = nullptr;
    bool others_wait = false;
    for (Entry& entry : entries_) {
      if (!has_work(*entry.member)) continue;
      entry.spent = std::max(entry.spent, now_);
      others_wait = least != nullptr;
      if (least == nullptr || entry.spent < least->spent) least = &entry;
    }
    if (least == nullptr) return {};
    now_ = least->spent;
    return {.member = least->member, .others_wait = others_wait};
  }

  /// Counts the time of a turn.
  void charge(const Member& member, double seconds) {
    for (Entry& entry : entries_) {
      if (entry.member == &member) entry.spent += seconds / entry.share;
    }
  }

 private:
  struct Entry {
    Member* member;
    double share;
    double spent;  ///< seconds, divided by the share
  };

  std::vector<Entry> entries_;
  double now_ = 0;  ///< what the member of the last turn had spent: the least of all that had work
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SCHEDULER_FAIR_TURNS_H_
