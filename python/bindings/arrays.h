// NumPy arrays over the library's vectors, without copies; other packages can use them by DLPack.
#ifndef BALLAST_PYTHON_BINDINGS_ARRAYS_H_
#define BALLAST_PYTHON_BINDINGS_ARRAYS_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ballast::python {

namespace nb = nanobind;

template <class T>
using NumpyArray = nb::ndarray<nb::numpy, T, nb::c_contig>;

/// Token ids from Python: any array of 32-bit integers that supports DLPack or the buffer protocol, read without a
/// copy.
using IdArray = nb::ndarray<const int, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline std::span<const int> ids_of(const IdArray& ids) {
  return {ids.data(), ids.size()};
}

/// Returns an array that owns the values. Element: T, or const T for an array that is read-only.
template <class T, class Element = T>
NumpyArray<Element> owned_array(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owner->data();
  const nb::capsule capsule(owner.get(), [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
  static_cast<void>(owner.release());
  return NumpyArray<Element>(data, shape, capsule);
}

template <class T, class Element = T>
NumpyArray<Element> owned_array(std::vector<T> values) {
  const std::size_t size = values.size();
  return owned_array<T, Element>(std::move(values), {size});
}

/// Returns an array of values that stay in place: it keeps `owner`, which contains them, alive.
template <class T>
NumpyArray<const T> shared_array(const std::vector<T>& values, std::initializer_list<std::size_t> shape,
                                 nb::handle owner) {
  return NumpyArray<const T>(values.data(), shape, owner);
}

template <class T>
NumpyArray<const T> shared_array(const std::vector<T>& values, nb::handle owner) {
  return shared_array(values, {values.size()}, owner);
}

}  // namespace ballast::python

#endif  // BALLAST_PYTHON_BINDINGS_ARRAYS_H_
