// Parts of a job that fail on one rank and shall fail on all.
#ifndef BALLAST_JOBS_COMMON_FAILURE_H_
#define BALLAST_JOBS_COMMON_FAILURE_H_

#include <optional>
#include <string>

#include "ballast/error.h"
#include "ballast/ranks.h"

namespace ballast::jobs {

/// What `part` returns, which calls none of the ranks. When it throws an Error on any of them, all throw the first
/// one's: so each rank makes the same calls afterwards. Every rank calls this.
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
