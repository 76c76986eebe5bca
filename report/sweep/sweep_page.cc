#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "ballast/report.h"
#include "files/atomic_output.h"
#include "report/chart/colours.h"
#include "report/chart/page.h"
#include "report/chart/scatter_chart.h"
#include "report/chart/table.h"
#include "report/chart/text.h"
#include "report/sweep/sweep_points.h"

namespace ballast {
namespace report {
namespace {

/// Smaller divergences come from the rounding of sums; a point there would squeeze the others together.
constexpr double kSmallestDrawn = 1e-5;

// Shows the tooltips of points at once, near the pointer or the focused point; without it the browser shows them.
constexpr const char* kScript = R"js(
"use strict";
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
for (const point of document.querySelectorAll(".point")) {
  const title = point.querySelector("title");
  const text = title.textContent;
  title.remove();
  point.setAttribute("role", "img");
  point.setAttribute("aria-label", text);
  const show = () => {
    tip.textContent = text;
    tip.hidden = false;
    const at = point.getBoundingClientRect();
    const left = at.right + tip.offsetWidth + 8 < innerWidth ? at.right + 4 : at.left - tip.offsetWidth - 4;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(at.top, innerHeight - tip.offsetHeight - 4)) + "px";
  };
  const hide = () => { tip.hidden = true; };
  point.addEventListener("pointerenter", show);
  point.addEventListener("pointerleave", hide);
  point.addEventListener("focus", show);
  point.addEventListener("blur", hide);
}
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
)js";

using Position = std::function<std::optional<double>(const SweepPoint&)>;

// Creates one group for each program; points without x are left out.
std::string chart(const std::vector<SweepPoint>& points, ScatterChart frame, const Position& x) {
  for (const std::string& program : programs_of(points)) {
    ScatterGroup group{.name = program, .colour = frame.groups.size() % kLineColours};
    if (program != kOwnProgram) group.mark = ScatterGroup::Mark::kDiamond;
    for (const SweepPoint& point : points) {
      const std::optional<double> place = x(point);
      if (point.program != program || !place || point.kl < kSmallestDrawn) continue;
      group.points.push_back({*place, point.kl, printable(point.name), point.tooltip()});
    }
    if (!group.points.empty()) frame.groups.push_back(std::move(group));
  }
  const std::string drawing = scatter_chart_html(frame);
  return drawing.empty() ? nothing_recorded() : drawing;
}

std::string size_figure(const std::vector<SweepPoint>& points) {
  ScatterChart frame{.id = "size", .x_name = "size of the tensor files, MB", .y_name = "KL divergence, nats per token"};
  frame.text = {"Divergence from the original over size",
                "Scatter plot, divergence on a logarithmic scale. The table below has the numbers."};
  std::string words =
      "Lower and further to the left is better. A line joins the points that no other of the same program beats.";
  const auto hidden = std::ranges::count_if(points, [](const SweepPoint& point) { return point.kl < kSmallestDrawn; });
  if (hidden > 0) {
    words += " Not drawn: " + counted(static_cast<std::size_t>(hidden), "point", "points") +
             " with a divergence below " + significant(kSmallestDrawn, 1) + ".";
  }
  return paragraph(words) + chart(points, frame, [](const SweepPoint& point) { return point.mb; });
}

std::string test_name(const std::string& test) {
  if (test.starts_with("pp")) return "reading a prompt (" + test + ")";
  if (test.starts_with("tg")) return "generating (" + test + ")";
  return test;
}

std::string speed_figure(const std::vector<SweepPoint>& points, const std::string& test, const std::string& id) {
  ScatterChart frame{
      .id = id, .x_name = "tokens per second", .y_name = "KL divergence, nats per token", .more_x_is_better = true};
  frame.text = {"Divergence from the original over speed, " + test,
                "Scatter plot, divergence on a logarithmic scale. The table below has the numbers."};
  return paragraph("Lower and further to the right is better.") +
         chart(points, frame, [&](const SweepPoint& point) -> std::optional<double> {
           const auto it = point.speeds.find(test);
           return it == point.speeds.end() ? std::nullopt : std::optional(it->second);
         });
}

std::string cell(const std::optional<double>& value, std::string (*text)(double)) {
  return value ? text(*value) : "–";
}

std::string figures_table(const std::vector<SweepPoint>& points) {
  const std::vector<std::string> tests = tests_of(points);
  std::vector<Table::Column> columns = {
      {"Recipe", false}, {"Program", false}, {"MB"}, {"Bits per weight"}, {"KL"}, {"KL, 99 %"},
      {"Perplexity"},    {"Same top token"}};
  for (const std::string& test : tests) columns.push_back({test + ", tokens/s"});
  columns.push_back({"Weights", false});
  Table table("By size, the other programs last", columns);
  for (const SweepPoint& point : points) {
    std::vector<std::string> cells = {escape(printable(point.name)),
                                      escape(printable(point.program)),
                                      size_text(point.mb),
                                      cell(point.bits_per_weight, number),
                                      divergence_text(point.kl),
                                      cell(point.kl_p99, divergence_text),
                                      cell(point.ppl, perplexity_text),
                                      cell(point.top1_agreement, agreement_text)};
    for (const std::string& test : tests) {
      const auto it = point.speeds.find(test);
      cells.push_back(it == point.speeds.end() ? "–" : number(it->second));
    }
    cells.push_back(escape(point.formats));
    table.add_row(cells);
  }
  return table.html();
}

std::string failures(const Sweep& sweep) {
  Table table("Their messages", {{"Recipe", false}, {"Reason", false}});
  bool any = false;
  for (const SweepRow& row : sweep.rows) {
    if (row.error.empty()) continue;
    table.add_row({escape(printable(row.name)), escape(printable(row.error))});
    any = true;
  }
  return any ? section("Recipes that failed", table.html()) : std::string();
}

std::string span_text(const std::string& first, const std::string& last) {
  return first == last ? first : first + " to " + last;
}

std::string headline(const Sweep& sweep, const std::vector<SweepPoint>& points) {
  std::vector<SweepPoint> own;
  std::ranges::copy_if(points, std::back_inserter(own), [](const SweepPoint& p) { return p.program == kOwnProgram; });
  if (own.empty()) return "No recipe for " + printable(sweep.model) + " was measured";
  const auto [least, most] = std::ranges::minmax(own, {}, &SweepPoint::kl);
  return count_word(own.size()) + (own.size() == 1 ? " recipe of " : " recipes of ") +
         span_text(size_text(own.front().mb), size_text(own.back().mb)) + " MB: a divergence of " +
         span_text(divergence_text(most.kl), divergence_text(least.kl)) + " from the original";
}

std::string machines(const Sweep& sweep) {
  std::set<std::string> machines;
  for (const SweepRow& row : sweep.rows) {
    if (!row.benchmark) continue;
    machines.insert(printable(row.benchmark->cpu) + " (" + row.benchmark->simd_target + "), " +
                    counted(row.benchmark->threads, "thread", "threads"));
  }
  std::string text;
  for (const std::string& machine : machines) text += (text.empty() ? " Speed on " : "; ") + escape(machine);
  return text.empty() ? text : text + ".";
}

const Evaluation* any_evaluation(const Sweep& sweep) {
  const auto it = std::ranges::find_if(sweep.rows, [](const SweepRow& row) { return row.evaluation.has_value(); });
  return it == sweep.rows.end() ? nullptr : &*it->evaluation;
}

std::string provenance(const Sweep& sweep) {
  std::string text = "Model " + escape(printable(sweep.model)) + ", calibrated on " +
                     escape(printable(sweep.calibration)) + ". Scored on " + escape(printable(sweep.text));
  if (const Evaluation* evaluation = any_evaluation(sweep)) {
    text += ": " + counted(evaluation->tokens, "token", "tokens") + " in " +
            counted(evaluation->chunks, "chunk", "chunks") + " of " + count(sweep.context);
  }
  return text + "." + machines(sweep);
}

std::vector<Fact> facts(const Sweep& sweep, std::size_t measured) {
  std::vector<Fact> facts = {{count(measured), "recipes measured"},
                             {size_text(static_cast<double>(sweep.original_bytes) / 1e6) + " MB", "the original"}};
  const Evaluation* evaluation = any_evaluation(sweep);
  if (evaluation != nullptr && evaluation->reference_ppl) {
    facts.push_back({perplexity_text(*evaluation->reference_ppl), "perplexity of the original"});
  }
  return facts;
}

}  // namespace
}  // namespace report

std::string sweep_page(const Sweep& sweep, const std::vector<SweepPeer>& peers) {
  using namespace report;  // NOLINT(google-build-using-namespace): this function is the room's front
  const std::vector<SweepPoint> points = sweep_points(sweep, peers);
  Page page;
  page.title = printable(sweep.model) + ": accuracy, size and speed";
  page.eyebrow = "Accuracy, size and speed · <strong>" + escape(printable(sweep.model)) + "</strong>";
  page.headline = headline(sweep, points);
  page.header =
      paragraph(
          "KL divergence, in nats per token, measures how far a recipe's predictions are from the original's: "
          "0 means the same probabilities for every next token.") +
      "<p class=\"provenance\">" + provenance(sweep) + "</p>\n";
  const auto measured = std::ranges::count(points, kOwnProgram, &SweepPoint::program);
  page.content = facts_html(facts(sweep, static_cast<std::size_t>(measured))) +
                 section("Accuracy against size", size_figure(points));
  const std::vector<std::string> tests = tests_of(points);
  for (std::size_t i = 0; i < tests.size(); ++i) {
    page.content += section("Accuracy against speed: " + escape(test_name(tests[i])),
                            speed_figure(points, tests[i], "speed-" + std::to_string(i)));
  }
  page.content += section("All figures", points.empty() ? nothing_recorded() : figures_table(points)) + failures(sweep);
  page.footer = "Written by ballast" + (sweep.program.empty() ? "." : " " + escape(printable(sweep.program)) + ".");
  page.script = kScript;
  return page_html(page);
}

void save_sweep(const Sweep& sweep, const std::filesystem::path& folder, const std::vector<SweepPeer>& peers) {
  files::write_file_atomically(folder / "results.json", sweep_json(sweep) + "\n", true);
  files::write_file_atomically(folder / "results.csv", sweep_csv(sweep), true);
  files::write_file_atomically(folder / "index.html", sweep_page(sweep, peers), true);
}

}  // namespace ballast
