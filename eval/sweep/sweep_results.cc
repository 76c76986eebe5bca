#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "ballast/sweep.h"
#include "eval/sweep/sweep_row.h"

namespace ballast {

namespace {

// Returns the shortest digits that parse to the same number.
std::string digits(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string digits(const std::optional<double>& value) {
  return value ? digits(*value) : std::string();
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string line(const std::vector<std::string>& cells) {
  std::string text;
  for (const std::string& cell : cells) text += (text.empty() ? "" : ",") + quoted(cell);
  return text + "\n";
}

/// Returns the tests of all rows, in the order of their first occurrence.
std::vector<std::string> tests_of(const Sweep& sweep) {
  std::vector<std::string> tests;
  for (const SweepRow& row : sweep.rows) {
    if (!row.benchmark) continue;
    for (const BenchmarkResult& result : row.benchmark->results) {
      if (std::ranges::find(tests, result.test) == tests.end()) tests.push_back(result.test);
    }
  }
  return tests;
}

std::string speed_of(const SweepRow& row, const std::string& test) {
  if (!row.benchmark) return {};
  const auto it = std::ranges::find(row.benchmark->results, test, &BenchmarkResult::test);
  return it == row.benchmark->results.end() ? std::string() : digits(it->tokens_per_second);
}

}  // namespace

std::string sweep_json(const Sweep& sweep) {
  nlohmann::json rows = nlohmann::json::array();
  for (const SweepRow& row : sweep.rows) {
    nlohmann::json entry = eval::row_json(row);
    entry["name"] = row.name;
    if (!row.error.empty()) entry["error"] = row.error;
    rows.push_back(std::move(entry));
  }
  return nlohmann::json{{"model", sweep.model},
                        {"original_bytes", sweep.original_bytes},
                        {"original_bits_per_weight", sweep.original_bits_per_weight},
                        {"text", sweep.text},
                        {"calibration", sweep.calibration},
                        {"context", sweep.context},
                        {"program", sweep.program},
                        {"rows", rows}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string sweep_csv(const Sweep& sweep) {
  std::vector<std::string> titles = {"name", "program", "file_mb", "bits_per_weight", "kl", "kl_p99", "ppl", "top1"};
  const std::vector<std::string> tests = tests_of(sweep);
  titles.insert(titles.end(), tests.begin(), tests.end());
  titles.push_back("error");
  std::string csv = line(titles);
  for (const SweepRow& row : sweep.rows) {
    std::vector<std::string> cells = {row.name, "ballast"};
    if (const auto& evaluation = row.evaluation) {
      cells.insert(cells.end(),
                   {digits(static_cast<double>(evaluation->file_bytes) / 1e6), digits(evaluation->bits_per_weight),
                    digits(evaluation->kl_mean), digits(evaluation->kl_p99), digits(evaluation->ppl),
                    digits(evaluation->top1_agreement)});
    }
    cells.resize(titles.size());
    for (std::size_t i = 0; i < tests.size(); ++i)
      cells[titles.size() - 1 - tests.size() + i] = speed_of(row, tests[i]);
    cells.back() = row.error;
    csv += line(cells);
  }
  return csv;
}

}  // namespace ballast
