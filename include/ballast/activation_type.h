// The types to which the inputs of a linear are quantized.
#ifndef BALLAST_ACTIVATION_TYPE_H_
#define BALLAST_ACTIVATION_TYPE_H_

namespace ballast {

/// Matrices of codes are multiplied with integers: INT8, or INT16, which takes twice the time and adds almost no error.
/// Matrices of floats are always multiplied with floats; if kFloat is chosen for a matrix of codes, it is decoded to
/// floats.
enum class ActivationType { kFloat, kInt16, kInt8 };

}  // namespace ballast

#endif  // BALLAST_ACTIVATION_TYPE_H_
