// Checks of option values while the command line is parsed: what they refuse is wrong usage.
#ifndef BALLAST_TOOLS_FLAGS_OPTION_CHECKS_H_
#define BALLAST_TOOLS_FLAGS_OPTION_CHECKS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ballast::tools {

/// A combination of options that makes no sense.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// As CLI11 wants it: text in, what is wrong with it out, empty when nothing is.
using OptionCheck = std::function<std::string(const std::string&)>;

/// More of anything that is counted on a command line than a machine can do.
inline constexpr std::uint64_t kMostItems = 1'000'000'000;

OptionCheck whole_number(std::uint64_t least, std::uint64_t most = kMostItems);

/// `accepts` is not asked about NaN or infinity. `range` completes "must be a number ...".
OptionCheck real_number(std::function<bool(double)> accepts, std::string range);

/// One of these. What --help says of them is the option's text.
CLI::Validator one_of(const std::vector<std::string>& values);

/// Any value; these are well known.
CLI::Validator suggested(const std::vector<std::string>& values);

/// Those of one_of() or suggested(), where that is the option's only check; else none.
std::vector<std::string> known_values(CLI::Option& option);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_OPTION_CHECKS_H_
