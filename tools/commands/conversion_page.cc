#include "tools/commands/conversion_page.h"

#include <vector>

#include "ballast/text.h"
#include "tools/terminal/console.h"
#include "tools/terminal/table.h"
#include "tools/terminal/units.h"

namespace ballast::tools {

std::string conversion_page(const ConvertReport& report, const std::filesystem::path& output) {
  std::string page;
  for (const std::string& note : report.notes) page += "- " + note + "\n";
  if (!page.empty()) page += "\n";

  using enum Table::Align;
  std::vector<Table::Column> columns = {{"tensors"},        {"format"},        {"count", kRight},
                                        {"before", kRight}, {"after", kRight}, {"bits/weight", kRight}};
  const bool allocated = report.divergence.has_value();
  if (allocated) columns.insert(columns.end(), {{"costs KL", kRight}, {"next MB saves", kRight}});
  Table table(columns);
  for (const TensorGroupReport& group : report.groups) {
    const double bits =
        group.weights == 0 ? 0 : 8 * static_cast<double>(group.bytes_after) / static_cast<double>(group.weights);
    std::vector<std::string> row = {report::printable(group.name),         group.format,
                                    report::count(group.tensors),          text::format_bytes(group.bytes_before),
                                    text::format_bytes(group.bytes_after), format_fixed(bits, 2)};
    if (allocated) {
      const bool chosen = group.cost > 0 || group.next_gain > 0;
      row.push_back(chosen ? format_fixed(group.cost, 6) : "");
      row.push_back(chosen ? format_fixed(group.next_gain * 1e6, 6) : "");
    }
    table.add_row(row);
  }
  return page + table.text() + "\n" + output.string() + ": " + text::format_bytes(report.bytes_before) + " became " +
         text::format_bytes(report.bytes_after) + ", " + format_fixed(report.bits_per_weight, 2) + " bits per weight\n";
}

}  // namespace ballast::tools
