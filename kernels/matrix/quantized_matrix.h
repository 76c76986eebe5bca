// Products of quantized activations with INT8, INT6, INT5 or INT4 weights repacked for this machine.
#ifndef BALLAST_KERNELS_MATRIX_QUANTIZED_MATRIX_H_
#define BALLAST_KERNELS_MATRIX_QUANTIZED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ballast/activation.h"
#include "ballast/activation_type.h"
#include "ballast/quantized.h"
#include "kernels/matrix/quantized_rows.h"

namespace ballast::kernels {

/// How activations become symmetric integers: kInt8, in [-127, 127], or kInt16, in [-32512, 32512], which the kernels
/// multiply as two planes of 8 bits.
struct ActivationQuantization {
  std::size_t cols = 0;
  std::size_t group_size = 0;                   ///< the groups of the weights that they are multiplied with
  ActivationType type = ActivationType::kInt8;  ///< not kFloat
  bool scale_per_group = false;  ///< kInt8: a scale per token and group, else per token. kInt16: always, groups <= 128
  std::vector<std::int32_t> outlier_columns;  ///< left out of scale and codes, kept in F32
  std::vector<std::int32_t> column_order{};   ///< as in CodeLayout

  bool operator==(const ActivationQuantization&) const = default;
};

/// Provides rows one at a time, so that they can be computed when they are read. Does not own the data.
class RowSource {
 public:
  /// Refers to dense rows in memory, [][cols].
  RowSource(const float* rows, std::size_t cols) : context_(rows), cols_(cols) {}

  /// `make(row, scratch)` returns row `row`, or writes its `cols` values to `scratch` and returns `scratch`. Called
  /// from several threads.
  template <class Make>
  explicit RowSource(const Make& make)
      : context_(&make), make_([](const void* context, std::size_t row, float* scratch) {
          return (*static_cast<const Make*>(context))(row, scratch);
        }) {}

  template <class Make>
  explicit RowSource(const Make&& make) = delete;  // a temporary would be destroyed before it is called

  /// Returns all rows if they are in memory, else null.
  const float* in_memory() const { return make_ == nullptr ? static_cast<const float*>(context_) : nullptr; }

  const float* row(std::size_t row, float* scratch) const {
    return make_ != nullptr ? make_(context_, row, scratch) : static_cast<const float*>(context_) + row * cols_;
  }

 private:
  const void* context_;
  std::size_t cols_ = 0;
  const float* (*make_)(const void* context, std::size_t row, float* scratch) = nullptr;
};

/// Activations of `m` tokens, quantized. Reused from call to call: `quantize` allocates only to grow.
class QuantizedActivations {
 public:
  QuantizedActivations();
  ~QuantizedActivations();
  QuantizedActivations(QuantizedActivations&&) noexcept;
  QuantizedActivations& operator=(QuantizedActivations&&) noexcept;

  /// Quantizes m rows of format.cols values. Ties round to even; an all-zero token or group gets scale 0.
  void quantize(const RowSource& rows, std::size_t m, const ActivationQuantization& format);

  /// `count` rows from row `first` on, which are quantized in a format of their own.
  struct Run {
    QuantizedActivations* dst = nullptr;
    const ActivationQuantization* format = nullptr;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// Quantizes runs of rows, one after the other without a gap, as one parallel call.
  static void quantize(const RowSource& rows, std::span<const Run> runs);

  std::size_t m() const;

  struct Storage;
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;
};

/// A quantized matrix in the layout of this machine's kernels, with its memory. Immutable once built.
class QuantizedMatrix {
 public:
  /// Repacks on all threads. The view's memory is not needed afterwards. Preconditions (checked by the loader): sizes
  /// agree, scales are finite, outlier columns ascend and are in range.
  explicit QuantizedMatrix(const QuantizedView& view);

  /// Does the same for rows in another layout.
  QuantizedMatrix(const CodeLayout& form, const QuantizedRowReader& read);

  /// Joins at least one range of consecutive rows. Precondition: all take the same activations.
  explicit QuantizedMatrix(std::vector<QuantizedMatrix> ranges);
  ~QuantizedMatrix();
  QuantizedMatrix(QuantizedMatrix&&) noexcept;
  QuantizedMatrix& operator=(QuantizedMatrix&&) noexcept;

  std::size_t rows() const;
  std::size_t cols() const;
  std::size_t bytes() const;  ///< memory used; a product with one token reads all of it

  /// Returns how activations must be quantized to be multiplied with this matrix.
  ActivationQuantization activation_quantization(ActivationType type, bool scale_per_group) const;

  /// Decodes row `row` to F32, with outlier columns, for embedding lookups. dst is [cols].
  void decode_row(std::size_t row, float* dst) const;

  /// Returns the ranges of rows that were joined; empty for a matrix that is one.
  std::span<const QuantizedMatrix> ranges() const { return ranges_; }

  /// Precondition: the matrix has no ranges.
  struct Storage;
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;  ///< null if there are ranges
  std::vector<QuantizedMatrix> ranges_;
};

/// One matrix's part of a product: dst[i][r] = bias[r] + sum_c src[i][c] * w[r][c], or that added to dst. With a gate,
/// which is a matrix with the same number of rows, dst[i][r] = activation(gate's product with src) * that. If only some
/// of the tokens are multiplied, i counts from the first of them.
struct QuantizedOutput {
  static constexpr std::size_t kAllTokens = ~std::size_t{0};

  const QuantizedActivations* src = nullptr;  ///< in the format that the matrix takes
  const QuantizedMatrix* matrix = nullptr;
  const float* bias = nullptr;  ///< [rows], or null
  float* dst = nullptr;         ///< [m][rows], rows `stride` floats apart
  std::size_t stride = 0;
  bool accumulate = false;                ///< dst += instead of dst =; not with a gate
  const QuantizedMatrix* gate = nullptr;  ///< neither it nor the matrix may have ranges then
  const float* gate_bias = nullptr;       ///< as bias
  Activation activation = Activation::kSilu;
  std::size_t first_token = 0;
  std::size_t tokens = kAllTokens;  ///< from first_token on
};

/// Multiplies activations with several matrices as one parallel call. Codes multiply in INT32 within a group; groups
/// and outlier columns are summed in F32. The result for a token depends neither on the other tokens nor on the number
/// of threads.
void matmul(std::span<const QuantizedOutput> outputs);

}  // namespace ballast::kernels

#endif  // BALLAST_KERNELS_MATRIX_QUANTIZED_MATRIX_H_
