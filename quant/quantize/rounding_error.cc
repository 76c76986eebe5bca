#include "quant/quantize/rounding_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/matrix/quantized_matrix.h"
#include "quant/quantize/outlier_channels.h"
#include "quant/rounding/int8_error.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

namespace {

// Each row is rounded separately and all have the same input: with 128 rows the sums over them are known to about 10 %.
constexpr std::size_t kSampledRows = 128;

/// Returns sum_c weights[c] sum_r (W - round(W))[r][c]^2.
double weight_error(const WeightRowSample& reader, std::span<const std::int32_t> outliers,
                    std::span<const double> weights) {
  const kernels::QuantizedMatrix rounded =
      round_to_nearest(reader.values, reader.rows, reader.cols, reader.format, outliers, reader.absmax).packed();
  std::vector<double> errors(reader.rows, 0.0);
#pragma omp parallel
  {
    std::vector<float> row(reader.cols);
#pragma omp for
    for (std::size_t r = 0; r < reader.rows; ++r) {
      rounded.decode_row(r, row.data());
      const float* values = reader.values.data() + r * reader.cols;
      for (std::size_t c = 0; c < reader.cols; ++c) {
        const double difference = double{values[c]} - double{row[c]};
        errors[r] += weights[c] * difference * difference;
      }
    }
  }
  double sum = 0;  // in the order of the rows, for any number of threads
  for (const double error : errors) sum += error;
  return sum;
}

/// Returns the square of each channel's expected rounding error when activations become INT8 in groups of `group_size`.
std::vector<double> activation_noise(const ChannelStatistics& channels, std::span<const std::int32_t> outliers,
                                     std::size_t group_size) {
  const std::size_t count = channels.min.size();
  std::vector<double> squares(count);
  for (std::size_t c = 0; c < count; ++c) squares[c] = std::pow(double{ordinary_rms(channels, c)}, 2);
  for (const std::int32_t column : outliers) squares[static_cast<std::size_t>(column)] = 0;
  std::vector<double> noise(count);
  for (std::size_t begin = 0; begin < count; begin += group_size) {
    const std::size_t end = std::min(begin + group_size, count);
    double fourth_powers = 0;
    for (std::size_t c = begin; c < end; ++c) fourth_powers += squares[c] * squares[c];
    const double error = int8_squared_error(std::sqrt(fourth_powers));
    for (std::size_t c = begin; c < end; ++c) noise[c] = error;
  }
  for (const std::int32_t column : outliers) noise[static_cast<std::size_t>(column)] = 0;
  return noise;
}

/// Returns sum_c weights[c] sum_r values[r][c]^2.
double weighted_energy(const WeightRowSample& reader, std::span<const double> weights) {
  double sum = 0;
  for (std::size_t r = 0; r < reader.rows; ++r) {
    const float* row = reader.values.data() + r * reader.cols;
    for (std::size_t c = 0; c < reader.cols; ++c) sum += weights[c] * double{row[c]} * double{row[c]};
  }
  return sum;
}

}  // namespace

WeightRowSample rounding_error_sample(const WorkingLinear& linear) {
  return {linear, spread_rows(linear.rows, kSampledRows)};
}

float ordinary_rms(const ChannelStatistics& channels, std::size_t channel) {
  const float rms = std::sqrt(channels.mean_square[channel]);
  return channels.ordinary_absmax.empty() ? rms : std::min(rms, channels.ordinary_absmax[channel]);
}

double rounding_error(std::span<const WeightRowSample> readers, const ChannelStatistics& channels,
                      const Recipe& recipe) {
  std::vector<std::int32_t> outliers;
  const bool split = recipe.outlier_fraction > 0 && std::ranges::any_of(readers, [&](const WeightRowSample& reader) {
                       return keeps_outliers(reader.format, reader.activations);
                     });
  if (split) outliers = outlier_channels(channels, recipe.outlier_fraction, readers.front().activations);
  const std::vector<double> mean_squares(channels.mean_square.begin(), channels.mean_square.end());
  double error = 0;
  for (const WeightRowSample& reader : readers) {
    if (!reader.format.quantizes()) continue;
    double sum = weight_error(reader, outliers, mean_squares);
    if (reader.activations == ActivationType::kInt8) {
      const std::size_t group = activation_group_size(reader.format);
      const std::size_t group_size = recipe.activation_groups && group > 0 ? group : reader.cols;
      sum += weighted_energy(reader, activation_noise(channels, outliers, group_size));
    }
    error += sum / reader.share();
  }
  return error;
}

}  // namespace ballast::quant
