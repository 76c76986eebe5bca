// Damages texts in ways that find faults in readers.
#ifndef BALLAST_TESTS_SUPPORT_MUTATED_TEXT_H_
#define BALLAST_TESTS_SUPPORT_MUTATED_TEXT_H_

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace ballast::test {

/// Returns `text` with a few parts changed, removed, doubled or swapped.
inline std::string mutated(std::string text, std::mt19937& random) {
  static constexpr std::string_view kLikely = "\r\n :;,0159afgXx/\t\0\x80\xff";
  const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
  for (std::size_t change = below(4) + 1; change > 0 && !text.empty(); --change) {
    const std::size_t place = below(text.size());
    const std::size_t size = below(20) + 1;
    switch (below(6)) {
      case 0:
        text[place] = static_cast<char>(below(256));
        break;
      case 1:
        text[place] = kLikely[below(kLikely.size())];
        break;
      case 2:
        text.insert(place, 1, kLikely[below(kLikely.size())]);
        break;
      case 3:
        text.erase(place, size);
        break;
      case 4:
        text.insert(below(text.size()), text.substr(place, size));
        break;
      default:
        text.resize(place);
    }
  }
  return text;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_MUTATED_TEXT_H_
