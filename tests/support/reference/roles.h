// Linears, norms and activations by role: plain loops in F64.
#ifndef BALLAST_TESTS_SUPPORT_REFERENCE_ROLES_H_
#define BALLAST_TESTS_SUPPORT_REFERENCE_ROLES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "ballast/spec.h"
#include "role_tensors.h"

namespace ballast::test {

/// The base of a reference: a spec and its tensors, which must outlive it.
class ReferenceRoles {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;  ///< one per token
  using Role = model::Role;

  ReferenceRoles(const ModelSpec& spec, const RoleTensors& tensors) : spec_(spec), tensors_(tensors) {}

  const RoleTensor& at(Role role, std::size_t layer = 0, std::size_t expert = 0) const {
    return tensors_.at({role, layer, expert});
  }

  static void add(const std::vector<float>& values, Row& row) {
    for (std::size_t i = 0; i < values.size(); ++i) row[i] += double{values[i]};
  }

  static Rows sum(Rows a, const Rows& b) {
    for (std::size_t t = 0; t < a.size(); ++t) {
      for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
    }
    return a;
  }

  Rows linear(Role role, std::size_t layer, const Rows& x, std::size_t expert = 0) const {
    const RoleTensor& tensor = at(role, layer, expert);
    Rows y;
    for (const Row& in : x) {
      Row out(tensor.rows, 0.0);
      for (std::size_t r = 0; r < tensor.rows; ++r) {
        for (std::size_t c = 0; c < tensor.cols; ++c) out[r] += double{tensor.weight[r * tensor.cols + c]} * in[c];
      }
      add(tensor.bias, out);
      y.push_back(out);
    }
    return y;
  }

  static void normalize(const NormSpec& spec, const RoleTensor& tensor, double* row) {
    const auto size = static_cast<double>(tensor.cols);
    double mean = 0;
    if (spec.kind == NormSpec::Kind::kLayer) {
      for (std::size_t i = 0; i < tensor.cols; ++i) mean += row[i] / size;
    }
    double square = 0;
    for (std::size_t i = 0; i < tensor.cols; ++i) square += (row[i] - mean) * (row[i] - mean) / size;
    for (std::size_t i = 0; i < tensor.cols; ++i) {
      row[i] = (row[i] - mean) / std::sqrt(square + spec.epsilon) * (double{tensor.weight[i]} + spec.gain_offset);
      if (spec.bias) row[i] += double{tensor.bias[i]};
    }
  }

  Rows norm(Role role, std::size_t layer, Rows x) const {
    for (Row& row : x) normalize(spec_.norm, at(role, layer), row.data());
    return x;
  }

  NormSpec plain_rms(double epsilon) const {
    return {.kind = NormSpec::Kind::kRms, .epsilon = epsilon, .bias = false, .gain_offset = spec_.norm.gain_offset};
  }

  static void activate(Activation activation, Row& row) {
    for (double& x : row) {
      switch (activation) {
        case Activation::kSilu:
          x = x / (1 + std::exp(-x));
          break;
        case Activation::kGelu:
          x = 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
          break;
        case Activation::kGeluTanh:
          x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
          break;
        case Activation::kGeluSigmoid:
          x = x / (1 + std::exp(-1.702 * x));
          break;
        case Activation::kRelu:
          x = std::max(x, 0.0);
          break;
        case Activation::kReluSquared:
          x = std::max(x, 0.0) * std::max(x, 0.0);
          break;
        case Activation::kTanh:
          x = std::tanh(x);
          break;
      }
    }
  }

 protected:
  const ModelSpec& spec_;

 private:
  const RoleTensors& tensors_;
};

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REFERENCE_ROLES_H_
