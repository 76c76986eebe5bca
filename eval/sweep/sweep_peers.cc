#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "ballast/error.h"
#include "ballast/sweep.h"
#include "files/text_file.h"

namespace ballast {

namespace {

/// Parses CSV line by line. A cell may be in quotes, within which two quotes are one.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  /// Reads the next line that is not empty; returns false at the end.
  bool next(std::vector<std::string>& cells) {
    do {
      if (text_.empty()) return false;
      cells.clear();
      ++line_;
      while (read_cell(cells)) {
      }
    } while (cells.size() == 1 && cells.front().empty());
    return true;
  }

  /// Returns the file and the number of the last line.
  std::string context() const { return file_ + ": line " + std::to_string(line_); }

 private:
  // Reads a cell; returns whether another one follows on the line.
  bool read_cell(std::vector<std::string>& cells) {
    cells.push_back(text_.starts_with('"') ? quoted_cell() : plain_cell());
    if (text_.starts_with(',')) {
      text_.remove_prefix(1);
      return true;
    }
    if (text_.starts_with("\r\n")) text_.remove_prefix(1);
    if (!text_.empty() && text_.front() != '\n') throw Error(context(), "has text after a cell in quotes");
    if (!text_.empty()) text_.remove_prefix(1);
    return false;
  }

  std::string plain_cell() {
    std::size_t end = std::min(text_.find_first_of(",\n"), text_.size());
    const std::size_t length = end;
    while (end > 0 && std::isspace(static_cast<unsigned char>(text_[end - 1])) != 0) --end;
    std::string cell(text_.substr(0, end));
    text_.remove_prefix(length);
    return cell;
  }

  std::string quoted_cell() {
    std::string cell;
    for (std::size_t i = 1; i < text_.size(); ++i) {
      if (text_[i] == '"' && !text_.substr(i + 1).starts_with('"')) {
        text_.remove_prefix(i + 1);
        return cell;
      }
      if (text_[i] == '"') ++i;
      cell += text_[i];
    }
    throw Error(context(), "a quote is not closed");
  }

  std::string_view text_;
  std::string file_;
  std::size_t line_ = 0;
};

// "pp512", "tg128", "pp512 @ d4096"
bool is_test(std::string_view column) {
  return column.size() > 2 && (column.starts_with("pp") || column.starts_with("tg")) &&
         std::isdigit(static_cast<unsigned char>(column[2])) != 0;
}

/// Returns nullopt if the cell is not a number, or is below 0.
std::optional<double> read_number(const std::string& cell) {
  double value = 0;
  const char* end = cell.data() + cell.size();
  const auto [stop, error] = std::from_chars(cell.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value) || value < 0) return {};
  return value;
}

double positive_number(const std::string& cell, const std::string& column, const std::string& context) {
  const double value = read_number(cell).value_or(0);
  if (value == 0) throw Error(context, column + " must be a number above 0, is '" + cell + "'");
  return value;
}

/// Reads a divergence; a sweep writes 0 for a model that is the original.
double divergence(const std::string& cell, const std::string& column, const std::string& context) {
  if (const std::optional<double> value = read_number(cell)) return *value;
  throw Error(context, column + " must be a number not below 0, is '" + cell + "'");
}

std::vector<std::string> read_titles(CsvReader& reader, const std::string& file) {
  std::vector<std::string> titles;
  if (!reader.next(titles)) throw Error(file, "is empty: its first line must name the columns");
  for (const char* needed : {"name", "file_mb", "kl"}) {
    if (std::ranges::find(titles, needed) == titles.end()) {
      throw Error(reader.context(), "names no column '" + std::string(needed) + "'");
    }
  }
  if (std::set<std::string>(titles.begin(), titles.end()).size() != titles.size()) {
    throw Error(reader.context(), "names a column twice");
  }
  return titles;
}

void set_field(SweepPeer& peer, const std::string& column, const std::string& cell, const std::string& context) {
  if (column == "name") {
    if (cell.empty()) throw Error(context, "name is empty");
    peer.name = cell;
  } else if (column == "program") {
    peer.program = cell;
  } else if (column == "file_mb") {
    peer.file_mb = positive_number(cell, column, context);
  } else if (column == "kl") {
    peer.kl = divergence(cell, column, context);
  } else if (is_test(column) && !cell.empty()) {
    peer.speeds[column] = positive_number(cell, column, context);
  }
}

}  // namespace

std::vector<SweepPeer> read_peers(const std::filesystem::path& path) {
  const std::string text = files::read_text_file(path);
  CsvReader reader(text, path.string());
  const std::vector<std::string> titles = read_titles(reader, path.string());
  std::vector<SweepPeer> peers;
  for (std::vector<std::string> cells; reader.next(cells);) {
    if (cells.size() != titles.size()) {
      throw Error(reader.context(), "has " + std::to_string(cells.size()) + " cells, the first line names " +
                                        std::to_string(titles.size()) + " columns");
    }
    const auto failure = std::ranges::find(titles, "error");
    if (failure != titles.end() && !cells[static_cast<std::size_t>(failure - titles.begin())].empty()) continue;
    SweepPeer& peer = peers.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) set_field(peer, titles[i], cells[i], reader.context());
    if (peer.program.empty()) peer.program = "others";
  }
  return peers;
}

}  // namespace ballast
