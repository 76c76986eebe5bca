// What a sweep measured, as the page's charts and tables take it.
#ifndef BALLAST_REPORT_SWEEP_SWEEP_POINTS_H_
#define BALLAST_REPORT_SWEEP_SWEEP_POINTS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ballast/sweep.h"

namespace ballast::report {

/// A recipe's results, or a peer's: what is not known of it stays absent.
struct SweepPoint {
  std::string program;
  std::string name;
  double mb = 0;
  double kl = 0;
  std::optional<double> bits_per_weight{};
  std::optional<double> kl_p99{};
  std::optional<double> ppl{};
  std::optional<double> top1_agreement{};
  std::map<std::string, double> speeds{};  ///< tokens per second by test
  std::string formats{};                   ///< "int4-g32-asym 76 %, int8-g64 24 %"

  /// All of it in a few lines of plain text.
  std::string tooltip() const;
};

/// Figures as a reader compares them: "105.4", "0.0105", "16.59", "94.8 %".
std::string size_text(double mb);
std::string divergence_text(double kl);
std::string perplexity_text(double ppl);
std::string agreement_text(double share);

/// ballast's own rows that were evaluated, then the peers, by ascending size within each program.
std::vector<SweepPoint> sweep_points(const Sweep& sweep, const std::vector<SweepPeer>& peers);

/// Programs in the order of `points`, each once.
std::vector<std::string> programs_of(const std::vector<SweepPoint>& points);

/// Tests that any of them has a speed for, prompts before generation.
std::vector<std::string> tests_of(const std::vector<SweepPoint>& points);

inline constexpr const char* kOwnProgram = "ballast";

}  // namespace ballast::report

#endif  // BALLAST_REPORT_SWEEP_SWEEP_POINTS_H_
