#include <map>

#include "quant/passes.h"
#include "quant/rounding.h"

namespace ballast::quant {

namespace {

class Quantize : public Pass {
 public:
  void run(WorkingBlock& block) override {
    for (WorkingLinear& linear : block.linears) {
      ++matrices_[format_name(linear.format)];
      if (linear.format.kind != WeightFormat::Kind::kInteger) continue;
      const bool planning = linear.values.empty();
      linear.quantized =
          planning ? empty_quantized(linear.rows, linear.cols, linear.format, linear.outlier_columns, linear.absmax)
                   : round_to_nearest(linear.values, linear.rows, linear.cols, linear.format, linear.outlier_columns,
                                      linear.absmax);
    }
  }

  std::string note() const override {
    std::string text;
    for (const auto& [format, count] : matrices_) {
      text +=
          (text.empty() ? "" : ", ") + std::to_string(count) + (count == 1 ? " matrix to " : " matrices to ") + format;
    }
    return "quantize: " + text + ", rounded to nearest";
  }

 private:
  std::map<std::string, std::size_t> matrices_;
};

}  // namespace

std::unique_ptr<Pass> make_quantize() {
  return std::make_unique<Quantize>();
}

}  // namespace ballast::quant
