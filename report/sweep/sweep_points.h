// The results of a sweep in the form of the page's charts and tables.
#ifndef BALLAST_REPORT_SWEEP_SWEEP_POINTS_H_
#define BALLAST_REPORT_SWEEP_SWEEP_POINTS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ballast/sweep.h"

namespace ballast::report {

/// The results of a recipe or of a peer; unknown values are absent.
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

  /// Returns all results in a few lines of plain text.
  std::string tooltip() const;
};

/// Format figures with the digits that a reader compares: "105.4", "0.0105", "16.59", "94.8 %".
std::string size_text(double mb);
std::string divergence_text(double kl);
std::string perplexity_text(double ppl);
std::string agreement_text(double share);

/// Returns ballast's own evaluated rows, then the peers, by ascending size within each program.
std::vector<SweepPoint> sweep_points(const Sweep& sweep, const std::vector<SweepPeer>& peers);

/// Returns the programs in the order of `points`, each once.
std::vector<std::string> programs_of(const std::vector<SweepPoint>& points);

/// Returns the tests for which any point has a speed, prompts before generation.
std::vector<std::string> tests_of(const std::vector<SweepPoint>& points);

inline constexpr const char* kOwnProgram = "ballast";

}  // namespace ballast::report

#endif  // BALLAST_REPORT_SWEEP_SWEEP_POINTS_H_
