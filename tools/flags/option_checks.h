// Checks of option values while the command line is parsed; a refused value is wrong usage.
#ifndef BALLAST_TOOLS_FLAGS_OPTION_CHECKS_H_
#define BALLAST_TOOLS_FLAGS_OPTION_CHECKS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::tools {

/// An invalid combination of options.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A check in CLI11's form: returns an error message, or an empty string if the text is valid.
using OptionCheck = std::function<std::string(const std::string&)>;

/// An upper limit for counts on a command line that no machine exceeds.
inline constexpr std::uint64_t kMostItems = 1'000'000'000;

OptionCheck whole_number(std::uint64_t least, std::uint64_t most = kMostItems);

/// `accepts` is not called for NaN or infinity. `range` completes "must be a number ...".
OptionCheck real_number(std::function<bool(double)> accepts, std::string range);

/// Accepts one of these values. --help shows them with the option's own text.
CLI::Validator one_of(const std::vector<std::string>& values);

/// Accepts any value; these are offered by completion.
CLI::Validator suggested(const std::vector<std::string>& values);

/// Returns the bytes of a size, see text::parse_bytes(). Throws UsageError naming the option.
std::uint64_t parse_bytes(std::string_view option, std::string_view text);

/// Returns the values of one_of() or suggested() if that is the option's only check; else none.
std::vector<std::string> known_values(CLI::Option& option);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_OPTION_CHECKS_H_
