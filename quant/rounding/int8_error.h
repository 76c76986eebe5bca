// The error of activations that become INT8.
#ifndef BALLAST_QUANT_ROUNDING_INT8_ERROR_H_
#define BALLAST_QUANT_ROUNDING_INT8_ERROR_H_

namespace ballast::quant {

/// Returns the expected squared rounding error of a value in a group whose largest value has the square `peak_square`:
/// a step is a 127th of the largest value, and errors that are spread evenly over a step have a twelfth of its square.
inline double int8_squared_error(double peak_square) {
  return peak_square / (127.0 * 127.0) / 12;
}

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_ROUNDING_INT8_ERROR_H_
