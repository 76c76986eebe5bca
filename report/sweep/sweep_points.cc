#include "report/sweep/sweep_points.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "report/chart/text.h"

namespace ballast::report {
namespace {

std::string formats_text(const std::vector<SweepFormat>& formats) {
  // Norms and biases are many tensors with few weights.
  constexpr double kNegligible = 0.002;
  double all = 0;
  for (const SweepFormat& format : formats) all += static_cast<double>(format.weights);
  std::vector<std::string> parts;
  for (const SweepFormat& format : formats) {
    const double share = static_cast<double>(format.weights) / all;
    if (share >= kNegligible) parts.push_back(format.name + " " + percent(share));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

SweepPoint own_point(const SweepRow& row) {
  const Evaluation& evaluation = *row.evaluation;
  SweepPoint point{.program = kOwnProgram, .name = row.name};
  point.mb = static_cast<double>(evaluation.file_bytes) / 1e6;
  point.kl = evaluation.kl_mean.value_or(0);
  point.bits_per_weight = evaluation.bits_per_weight;
  point.kl_p99 = evaluation.kl_p99;
  point.ppl = evaluation.ppl;
  point.top1_agreement = evaluation.top1_agreement;
  if (row.benchmark) {
    for (const BenchmarkResult& result : row.benchmark->results) point.speeds[result.test] = result.tokens_per_second;
  }
  point.formats = formats_text(row.formats);
  return point;
}

}  // namespace

std::string SweepPoint::tooltip() const {
  std::string text = printable(name) + (program == kOwnProgram ? "" : " · " + printable(program));
  text += "\n" + size_text(mb) + " MB";
  if (bits_per_weight) text += ", " + number(*bits_per_weight) + " bits per weight";
  text += "\nKL " + divergence_text(kl);
  if (kl_p99) text += ", 99 % below " + divergence_text(*kl_p99);
  if (ppl) text += "\nperplexity " + perplexity_text(*ppl);
  if (top1_agreement) text += "\nsame top token " + agreement_text(*top1_agreement);
  for (const auto& [test, speed] : speeds) text += "\n" + test + " " + number(speed) + " tokens/s";
  if (!formats.empty()) text += "\n" + formats;
  return text;
}

std::string size_text(double mb) {
  return significant(mb, 4);
}

std::string divergence_text(double kl) {
  return significant(kl, 3);
}

std::string perplexity_text(double ppl) {
  return significant(ppl, 4);
}

std::string agreement_text(double share) {
  return significant(100 * share, 3) + " %";
}

std::vector<SweepPoint> sweep_points(const Sweep& sweep, const std::vector<SweepPeer>& peers) {
  std::vector<SweepPoint> points;
  for (const SweepRow& row : sweep.rows) {
    if (row.evaluation) points.push_back(own_point(row));
  }
  for (const SweepPeer& peer : peers) {
    points.push_back(
        {.program = peer.program, .name = peer.name, .mb = peer.file_mb, .kl = peer.kl, .speeds = peer.speeds});
  }
  // The peers may be another sweep's, whose points are joined with this one's.
  std::ranges::stable_sort(points, {}, [](const SweepPoint& point) {
    return std::tuple(point.program != kOwnProgram, point.program, point.mb);
  });
  return points;
}

std::vector<std::string> programs_of(const std::vector<SweepPoint>& points) {
  std::vector<std::string> programs;
  for (const SweepPoint& point : points) {
    if (std::ranges::find(programs, point.program) == programs.end()) programs.push_back(point.program);
  }
  return programs;
}

std::vector<std::string> tests_of(const std::vector<SweepPoint>& points) {
  std::set<std::string> tests;  // "pp" stands before "tg"
  for (const SweepPoint& point : points) {
    for (const auto& [test, speed] : point.speeds) tests.insert(test);
  }
  return {tests.begin(), tests.end()};
}

}  // namespace ballast::report
