#include "text/reply/argument_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "ballast/error.h"
#include "files/strict_json.h"
#include "files/utf8.h"
#include "text/reply/json_scanner.h"

namespace ballast::text {
namespace {

constexpr std::string_view kValueSpace = " \t\r\n";
constexpr std::size_t kDeepestValue = 64;

/// Returns whether a text is one JSON value, by the scanner, which takes a list.
bool is_json(std::string_view text) {
  JsonScanner scanner;
  if (!scanner.take('[')) return false;
  bool is_empty = true;
  for (const char c : text) {
    if (!scanner.take(c)) return false;
    if (scanner.done()) return false;
    // A comma of the list would make it several values.
    if (c == ',' && scanner.depth() == 1 && !scanner.in_string()) return false;
    is_empty = is_empty && kValueSpace.contains(c);
  }
  return !is_empty && scanner.take(']') && scanner.done();
}

bool allows(const JsonTypes& types, std::string_view written) {
  switch (written.front()) {
    case '{':
      return types.object;
    case '[':
      return types.array;
    case 't':
    case 'f':
      return types.boolean;
    case 'n':
      return types.null;
    case '"':
      return false;  // the quotes are a part of a string's text
    default:
      return types.number;
  }
}

/// Reads values that are not JSON from a text.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : rest_(text) {}

  virtual ~ValueReader() = default;
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;
  ValueReader(ValueReader&&) = delete;
  ValueReader& operator=(ValueReader&&) = delete;

  /// Returns the value as JSON if the text is one value.
  std::optional<std::string> whole() {
    std::string written;
    if (!value(written) || !without_space(rest_).empty()) return std::nullopt;
    return written;
  }

 protected:
  virtual bool value(std::string& written) = 0;
  virtual bool name(std::string& written) = 0;

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kValueSpace), rest_.size())); }

  bool take(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Reads members up to `closing`, with names in an object.
  bool members(std::string& written, char closing, char json_closing, bool named) {
    if (++depth_ > kDeepestValue) return false;
    bool is_first = true;
    while (!take(closing)) {
      if (!is_first) {
        if (!take(',')) return false;
        if (take(closing)) break;  // Python allows a comma after the last one
        written += ", ";
      }
      is_first = false;
      skip_space();
      if (named) {
        if (!name(written) || !take(':')) return false;
        written += ": ";
      }
      if (!value(written)) return false;
    }
    written += json_closing;
    --depth_;
    return true;
  }

  /// Reads a number, or one of the names of true, false and null.
  bool word(std::string& written) {
    static constexpr std::array<std::array<std::string_view, 2>, 6> kWords = {{{"True", "true"},
                                                                               {"False", "false"},
                                                                               {"None", "null"},
                                                                               {"true", "true"},
                                                                               {"false", "false"},
                                                                               {"null", "null"}}};
    const std::string_view text = rest_.substr(0, rest_.find_first_of(",]}): \t\r\n"));
    rest_.remove_prefix(text.size());
    for (const auto& [theirs, ours] : kWords) {
      if (text == theirs) {
        written += ours;
        return true;
      }
    }
    if (text.empty() || std::string_view("\"{[tfn").contains(text.front()) || !is_json(text)) return false;
    written += text;
    return true;
  }

  std::string_view rest_;

 private:
  std::size_t depth_ = 0;
};

class PythonReader final : public ValueReader {
 public:
  using ValueReader::ValueReader;

 protected:
  bool value(std::string& written) override {
    skip_space();
    if (take('[')) return members(written += '[', ']', ']', false);
    if (take('(')) return members(written += '[', ')', ']', false);
    if (take('{')) return members(written += '{', '}', '}', true);
    if (rest_.starts_with('"') || rest_.starts_with('\'')) return name(written);
    return word(written);
  }

  bool name(std::string& written) override {
    std::string text;
    if (!string(text)) return false;
    written += json_string(text);
    return true;
  }

 private:
  bool string(std::string& text) {
    if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'')) return false;
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    while (!rest_.empty() && !(rest_.front() == quote && ends_python_string(rest_.substr(1)))) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c != '\\') {
        text += c;
      } else if (!escape(text)) {
        return false;
      }
    }
    if (rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool escape(std::string& text) {
    static constexpr std::string_view kNames = "nrtbfav0\\'\"/";
    static constexpr std::string_view kMeanings("\n\r\t\b\f\a\v\0\\'\"/", 12);
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == 'x') return code_point(2, text);
    if (c == 'u') return code_point(4, text);
    if (c == 'U') return code_point(8, text);
    if (c == '\n') return true;  // a line that goes on
    const std::size_t place = kNames.find(c);
    if (place == std::string_view::npos) {  // as in Python, the backslash remains
      text += '\\';
      text += c;
    } else {
      text += kMeanings[place];
    }
    return true;
  }

  bool code_point(std::size_t digits, std::string& text) {
    std::uint32_t code = 0;
    if (!hexadecimal(digits, code)) return false;
    // Two halves, as JSON has them.
    if (code >= 0xD800 && code < 0xDC00 && rest_.starts_with("\\u")) {
      std::uint32_t low = 0;
      rest_.remove_prefix(2);
      if (!hexadecimal(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    files::append_utf8(code, text);
    return true;
  }

  bool hexadecimal(std::size_t digits, std::uint32_t& code) {
    if (rest_.size() < digits) return false;
    const std::string_view written = rest_.substr(0, digits);
    rest_.remove_prefix(digits);
    const auto [last, error] = std::from_chars(written.begin(), written.end(), code, 16);
    return error == std::errc() && last == written.end();
  }
};

class GemmaReader final : public ValueReader {
 public:
  using ValueReader::ValueReader;

 protected:
  bool value(std::string& written) override {
    skip_space();
    if (take('[')) return members(written += '[', ']', ']', false);
    if (take('{')) return members(written += '{', '}', '}', true);
    if (rest_.starts_with(kGemmaQuote)) return quoted(written);
    return word(written);
  }

  bool name(std::string& written) override {
    if (rest_.starts_with(kGemmaQuote)) return quoted(written);
    const std::size_t size = rest_.find_first_of(":,{}[]\xFF");
    if (size == std::string_view::npos || size == 0) return false;
    written += json_string(without_space(rest_.substr(0, size)));
    rest_.remove_prefix(size);
    return true;
  }

 private:
  bool quoted(std::string& written) {
    const std::size_t end = rest_.find(kGemmaQuote, 1);
    if (end == std::string_view::npos) return false;
    written += json_string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return true;
  }
};

}  // namespace

bool ends_python_string(std::string_view following) {
  const std::size_t next = following.find_first_not_of(kValueSpace);
  return next == std::string_view::npos || std::string_view(",:)]}").contains(following[next]);
}

std::string_view without_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kValueSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kValueSpace) + 1 - begin);
}

void append_escaped(std::string_view text, std::string& written) {
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      written += '\\';
      written += c;
    } else if (c == '\n') {
      written += "\\n";
    } else if (c == '\t') {
      written += "\\t";
    } else if (c == '\r') {
      written += "\\r";
    } else if (byte < 0x20) {
      written += "\\u00";
      written += kHexadecimal[byte / 16];
      written += kHexadecimal[byte % 16];
    } else {
      written += c;
    }
  }
}

std::string json_string(std::string_view text) {
  std::string written = "\"";
  append_escaped(text, written);
  written += '"';
  return written;
}

bool append_member_name(std::string_view name, std::vector<std::string>& names, std::string& object) {
  if (std::ranges::find(names, name) != names.end()) return false;
  object += names.empty() ? "{" : ", ";
  names.emplace_back(name);
  object += json_string(name);
  object += ": ";
  return true;
}

bool is_json_object(std::string_view text) {
  text = without_space(text);
  return text.starts_with('{') && is_json(text);
}

std::string typed_value(std::string_view text, const JsonTypes& types) {
  const std::string_view bare = without_space(text);
  if (!bare.empty() && is_json(bare) && allows(types, bare)) return std::string(bare);
  if (!bare.empty() && !bare.starts_with('"') && !bare.starts_with('\'')) {
    const std::optional<std::string> written = python_value(bare);
    if (written && allows(types, *written)) return *written;
  }
  return json_string(text);
}

std::optional<std::string> python_value(std::string_view text) {
  return PythonReader(text).whole();
}

std::optional<std::string> gemma_value(std::string_view text) {
  return GemmaReader(text).whole();
}

}  // namespace ballast::text
