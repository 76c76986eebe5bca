#include <map>
#include <regex>

#include "quant/passes.h"
#include "quant/rounding.h"

namespace ballast::quant {

namespace {

class Quantize : public Pass {
 public:
  explicit Quantize(const Recipe& recipe) : recipe_(recipe) {
    for (const FormatException& exception : recipe.exceptions) {
      exceptions_.emplace_back(std::regex(exception.pattern, std::regex::ECMAScript), exception.format);
    }
  }

  void run(WorkingBlock& block) override {
    for (WorkingLinear& linear : block.linears) {
      linear.format = format_for(linear);
      ++matrices_[format_name(linear.format)];
      if (linear.format.kind != WeightFormat::Kind::kInteger) {
        linear.outlier_columns.clear();
        continue;
      }
      const bool planning = linear.values.empty();
      linear.quantized = planning ? empty_quantized(linear.rows, linear.cols, linear.format, linear.outlier_columns, linear.absmax)
                                  : round_to_nearest(linear.values, linear.rows, linear.cols, linear.format,
                                                     linear.outlier_columns, linear.absmax);
    }
  }

  std::string note() const override {
    std::string text;
    for (const auto& [format, count] : matrices_) {
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " matrices to " + format;
    }
    return "quantize: " + text + ", rounded to nearest";
  }

 private:
  WeightFormat format_for(const WorkingLinear& linear) const {
    for (const auto& [pattern, format] : exceptions_) {
      if (std::regex_search(linear.name, pattern)) return format;
    }
    if (linear.role == model::Role::kEmbedding) return recipe_.embedding;
    if (linear.role == model::Role::kHead) return recipe_.head;
    return recipe_.linears;
  }

  const Recipe recipe_;
  std::vector<std::pair<std::regex, WeightFormat>> exceptions_;
  std::map<std::string, std::size_t> matrices_;
};

}  // namespace

std::unique_ptr<Pass> make_quantize(const Recipe& recipe) { return std::make_unique<Quantize>(recipe); }

}  // namespace ballast::quant
