#include "model/arch/config_reader.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "ballast/error.h"

namespace ballast::model {

namespace {
constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr std::size_t kMostLayers = 65536;
}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& object, std::string context)
    : object_(object), context_(std::move(context)) {
  if (!object_.is_object()) throw Error(context_, "not a JSON object");
}

bool ConfigReader::has(std::string_view field) const {
  const auto it = object_.find(field);
  return it != object_.end() && !it->is_null();
}

const nlohmann::json& ConfigReader::at(std::string_view field) const {
  if (!has(field)) fail(field, "missing");
  return *object_.find(field);
}

std::size_t ConfigReader::whole(std::string_view field, std::int64_t least) const {
  const nlohmann::json& value = at(field);
  if (!value.is_number_integer()) fail(field, "must be a whole number, is " + value.dump());
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() >= kLargestSize;
  if (too_large || value.get<std::int64_t>() < least) {
    fail(field, "must lie between " + std::to_string(least) + " and 2^31 - 1, is " + value.dump());
  }
  return value.get<std::size_t>();
}

std::size_t ConfigReader::size(std::string_view field) const {
  return whole(field, 1);
}

std::size_t ConfigReader::layers(std::string_view field) const {
  const std::size_t layers = size(field);
  if (layers > kMostLayers) fail(field, std::to_string(layers) + " blocks are more than any model has");
  return layers;
}

std::size_t ConfigReader::count(std::string_view field) const {
  return whole(field, 0);
}

std::size_t ConfigReader::count(std::string_view field, std::size_t fallback) const {
  return has(field) ? count(field) : fallback;
}

std::size_t ConfigReader::size(std::string_view field, std::size_t fallback) const {
  return has(field) ? size(field) : fallback;
}

double ConfigReader::number(std::string_view field) const {
  const nlohmann::json& value = at(field);
  if (!value.is_number() || !std::isfinite(value.get<double>())) fail(field, "must be a number, is " + value.dump());
  return value.get<double>();
}

double ConfigReader::number(std::string_view field, double fallback) const {
  return has(field) ? number(field) : fallback;
}

double ConfigReader::positive(std::string_view field) const {
  const double value = number(field);
  if (value <= 0) fail(field, "must be positive");
  return value;
}

double ConfigReader::positive(std::string_view field, double fallback) const {
  return has(field) ? positive(field) : fallback;
}

bool ConfigReader::flag(std::string_view field, bool fallback) const {
  return has(field) ? flag(field) : fallback;
}

bool ConfigReader::flag(std::string_view field) const {
  const nlohmann::json& value = at(field);
  if (!value.is_boolean()) fail(field, "must be true or false, is " + value.dump());
  return value.get<bool>();
}

std::string ConfigReader::text(std::string_view field, std::string_view fallback) const {
  if (!has(field)) return std::string(fallback);
  const nlohmann::json& value = at(field);
  if (!value.is_string()) fail(field, "must be a string, is " + value.dump());
  return value.get<std::string>();
}

ConfigReader ConfigReader::object(std::string_view field) const {
  const nlohmann::json& value = at(field);
  if (!value.is_object()) fail(field, "must be an object, is " + value.dump());
  return {value, context_ + ": " + std::string(field)};
}

void ConfigReader::fail(std::string_view field, std::string_view problem) const {
  throw Error(context_ + ": " + std::string(field), problem);
}

bool is_token_id(const nlohmann::json& value, int least) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= std::numeric_limits<int>::max();
  return value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= std::numeric_limits<int>::max();
}

}  // namespace ballast::model
