// The message of an error.
#ifndef BALLAST_TESTS_SUPPORT_ERROR_MESSAGE_H_
#define BALLAST_TESTS_SUPPORT_ERROR_MESSAGE_H_

#include <ostream>
#include <string>
#include <utility>

#include "ballast/error.h"

namespace ballast::test {

/// Returns the message of the Error that `action` throws, or "no error". Other exceptions pass through and fail the
/// test.
template <typename Action>
std::string error_message(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Equals every text that contains its text: CHECK(error_message(...) == Contains("too short")).
struct Contains {
  std::string part;
  explicit Contains(std::string text) : part(std::move(text)) {}

  friend bool operator==(const std::string& text, const Contains& wanted) {
    return text.find(wanted.part) != std::string::npos;
  }
  friend std::ostream& operator<<(std::ostream& out, const Contains& wanted) {
    return out << "text with " << wanted.part;
  }
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_ERROR_MESSAGE_H_
