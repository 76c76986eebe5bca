#include <nlohmann/json.hpp>

#include "ballast/convert.h"

namespace ballast {

std::string convert_report_json(const ConvertReport& report) {
  nlohmann::json groups = nlohmann::json::array();
  for (const TensorGroupReport& group : report.groups) {
    groups.push_back({{"name", group.name},
                      {"format", group.format},
                      {"tensors", group.tensors},
                      {"weights", group.weights},
                      {"bytes_before", group.bytes_before},
                      {"bytes_after", group.bytes_after}});
    if (!report.divergence) continue;
    groups.back()["cost"] = group.cost;
    groups.back()["next_gain"] = group.next_gain;
  }
  nlohmann::json object{{"notes", report.notes},
                        {"groups", groups},
                        {"bytes_before", report.bytes_before},
                        {"bytes_after", report.bytes_after},
                        {"bits_per_weight", report.bits_per_weight}};
  if (report.divergence) object["expected_divergence"] = *report.divergence;
  return object.dump();
}

}  // namespace ballast
