// The Python module of one CUDA source. `kernels` describes its table, and `launch` calls one of them. It reads tensors
// through torch's Python methods: torch's C++ headers take long to compile.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <iterator>
#include <utility>

#include "kernel.h"

namespace kbench {
namespace {

constexpr int kMaxRank = 16;

// A Python exception is set.
struct Raised {};

// An owned reference. Throws Raised for the null pointer that a failed call of Python returns.
class Object {
 public:
  explicit Object(PyObject* object) : object_(object) {
    if (!object) throw Raised{};
  }
  Object(const Object&) = delete;
  ~Object() { Py_XDECREF(object_); }
  operator PyObject*() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_;
};

// What `launch` needs of Python, looked up once.
struct Python {
  PyObject *data_ptr, *dtype, *size, *stride, *get_device;  // names of methods and attributes
  PyObject *tensor_type, *unsupported;
  PyObject* current_stream;              // (device) -> the address of the stream on which torch launches
  PyObject* dtypes[std::size(kDtypes)];  // null for a dtype that this torch does not have
} python;

template <typename... Arguments>
[[noreturn]] void raise(PyObject* type, const char* format, Arguments... arguments) {
  PyErr_Format(type, format, arguments...);
  throw Raised{};
}

std::int64_t whole(PyObject* number) {
  const std::int64_t value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) throw Raised{};
  return value;
}

// The tensors of one call, and the memory of their sizes and strides.
class Tensors {
 public:
  Tensors(const Kernel& kernel, int device, std::size_t count)
      : kernel_(kernel), device_(device), tensors_(count), numbers_(count * 2 * kMaxRank) {}

  const Tensor* read(PyObject* object, const char* name) {
    if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(python.tensor_type))) {
      raise(PyExc_TypeError, "%s: %s must be a torch.Tensor, not %s", kernel_.name, name, Py_TYPE(object)->tp_name);
    }
    if (whole(Object(PyObject_CallMethodNoArgs(object, python.get_device))) != device_) {
      const Object other(PyObject_GetAttrString(object, "device"));
      raise(PyExc_ValueError, "%s: %s is on %S; the current device is cuda:%d", kernel_.name, name,
            static_cast<PyObject*>(other), device_);
    }
    std::int64_t* sizes = &numbers_[used_ * 2 * kMaxRank];
    Tensor& tensor = tensors_[used_++];
    tensor.dtype = dtype(object, name);
    tensor.address = PyLong_AsVoidPtr(Object(PyObject_CallMethodNoArgs(object, python.data_ptr)));
    tensor.sizes = sizes;
    tensor.strides = sizes + kMaxRank;
    tensor.rank = copy(Object(PyObject_CallMethodNoArgs(object, python.size)), sizes, name);
    copy(Object(PyObject_CallMethodNoArgs(object, python.stride)), sizes + kMaxRank, name);
    return &tensor;
  }

  // One tensor for each name, from a list or a tuple.
  const Tensor* read_all(PyObject* objects, const std::vector<const char*>& names, const char* kind) {
    if (!PyList_Check(objects) && !PyTuple_Check(objects)) {
      raise(PyExc_TypeError, "%s: inputs and outputs must be lists or tuples of tensors, not %s", kernel_.name,
            Py_TYPE(objects)->tp_name);
    }
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(objects));
    if (count != names.size()) {
      std::string list;
      for (const char* name : names) list += (list.empty() ? "" : ", ") + std::string(name);
      raise(PyExc_TypeError, "%s takes %zu %s%s (%s), not %zu", kernel_.name, names.size(), kind,
            names.size() == 1 ? "" : "s", list.c_str(), count);
    }
    const Tensor* first = tensors_.data() + used_;
    for (std::size_t i = 0; i < count; ++i) read(PySequence_Fast_GET_ITEM(objects, i), names[i]);
    return first;
  }

 private:
  Dtype dtype(PyObject* object, const char* name) const {
    const Object dtype(PyObject_GetAttr(object, python.dtype));
    for (std::size_t i = 0; i < std::size(kDtypes); ++i) {
      if (static_cast<PyObject*>(dtype) == python.dtypes[i]) return static_cast<Dtype>(i);
    }
    raise(python.unsupported, "%s: no CUDA source takes %S, the dtype of %s", kernel_.name,
          static_cast<PyObject*>(dtype), name);
  }

  int copy(PyObject* tuple, std::int64_t* numbers, const char* name) const {
    const Py_ssize_t rank = PyTuple_GET_SIZE(tuple);
    if (rank > kMaxRank) {
      raise(python.unsupported, "%s: %s has %zd dimensions, more than %d", kernel_.name, name, rank, kMaxRank);
    }
    for (Py_ssize_t i = 0; i < rank; ++i) numbers[i] = whole(PyTuple_GET_ITEM(tuple, i));
    return static_cast<int>(rank);
  }

  const Kernel& kernel_;
  const int device_;
  std::size_t used_ = 0;
  std::vector<Tensor> tensors_;
  std::vector<std::int64_t> numbers_;
};

// The values of the options: a tuple of numbers, in the kernel's order.
std::vector<double> read_options(PyObject* values, const Kernel& kernel) {
  std::vector<double> numbers(kernel.options.size());
  if (!PyTuple_Check(values) || static_cast<std::size_t>(PyTuple_GET_SIZE(values)) != numbers.size()) {
    raise(PyExc_TypeError, "%s has %zu options", kernel.name, numbers.size());
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(values, i));
  if (PyErr_Occurred()) throw Raised{};
  return numbers;
}

bool empty(const Tensor* tensors, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i].elements() != 0) return false;
  }
  return true;
}

// `arguments`: the number of a kernel, the values of its options, its inputs, its outputs.
void launch(PyObject* const* arguments) {
  const auto number = static_cast<std::size_t>(whole(arguments[0]));
  if (number >= kernels.size()) raise(PyExc_IndexError, "there are %zu kernels", kernels.size());
  const Kernel& kernel = kernels[number];
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    Tensors tensors(kernel, device, kernel.inputs.size() + kernel.outputs.size());
    const std::vector<double> numbers = read_options(arguments[1], kernel);
    Call call;
    call.kernel = &kernel;
    call.inputs = tensors.read_all(arguments[2], kernel.inputs, "input");
    call.outputs = tensors.read_all(arguments[3], kernel.outputs, "output");
    call.numbers = numbers.data();
    if (empty(call.outputs, kernel.outputs.size())) return;
    const Object index(PyLong_FromLong(device)), stream(PyObject_CallOneArg(python.current_stream, index));
    call.stream = static_cast<cudaStream_t>(PyLong_AsVoidPtr(stream));
    if (PyErr_Occurred()) throw Raised{};
    error = kernel.launch(call);
  }
  if (error != cudaSuccess) raise(PyExc_RuntimeError, "%s: %s", kernel.name, cudaGetErrorString(error));
}

PyObject* launch_from_python(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 4) {
    PyErr_Format(PyExc_TypeError, "a kernel takes a list of inputs and a list of outputs");
    return nullptr;
  }
  try {
    launch(arguments);
    Py_RETURN_NONE;
  } catch (const Raised&) {
  } catch (const Unsupported& refusal) {
    PyErr_SetString(python.unsupported, refusal.what());
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* tuple_of(const std::vector<const char*>& words) {
  Object tuple(PyTuple_New(static_cast<Py_ssize_t>(words.size())));
  for (std::size_t i = 0; i < words.size(); ++i) {
    PyTuple_SET_ITEM(static_cast<PyObject*>(tuple), i, Object(PyUnicode_FromString(words[i])).release());
  }
  return tuple.release();
}

// The table as Python sees it: (name, inputs, outputs, options) of each kernel.
PyObject* table() {
  Object list(PyList_New(0));
  for (const Kernel& kernel : kernels) {
    const Object entry(Py_BuildValue("(sNNN)", kernel.name, tuple_of(kernel.inputs), tuple_of(kernel.outputs),
                                     tuple_of(kernel.options)));
    if (PyList_Append(list, entry) != 0) throw Raised{};
  }
  return list.release();
}

void look_up() {
  const auto word = [](const char* text) { return Object(PyUnicode_InternFromString(text)).release(); };
  python.data_ptr = word("data_ptr");
  python.dtype = word("dtype");
  python.size = word("size");
  python.stride = word("stride");
  python.get_device = word("get_device");
  const Object torch(PyImport_ImportModule("torch")), kbench(PyImport_ImportModule("kbench"));
  python.tensor_type = Object(PyObject_GetAttrString(torch, "Tensor")).release();
  python.unsupported = Object(PyObject_GetAttrString(kbench, "Unsupported")).release();
  const Object internals(PyObject_GetAttrString(torch, "_C"));  // torch.cuda.current_stream() takes ten times as long
  python.current_stream = Object(PyObject_GetAttrString(internals, "_cuda_getCurrentRawStream")).release();
  for (std::size_t i = 0; i < std::size(kDtypes); ++i) {
    python.dtypes[i] = PyObject_GetAttrString(torch, kDtypes[i].name);
    if (!python.dtypes[i]) PyErr_Clear();
  }
}

PyMethodDef methods[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_from_python)), METH_FASTCALL,
     "launch(number, options, inputs, outputs): call a kernel of the table on the current stream."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernels of a CUDA source", nullptr, -1, methods};

PyObject* make_module() {
  try {
    look_up();
    Object module(PyModule_Create(&definition));
    if (PyModule_AddObject(module, "kernels", table()) != 0) return nullptr;
    return module.release();
  } catch (const Raised&) {
    return nullptr;
  }
}

}  // namespace
}  // namespace kbench

#define KBENCH_JOIN(a, b) a##b
#define KBENCH_INIT(name) KBENCH_JOIN(PyInit_, name)

PyMODINIT_FUNC KBENCH_INIT(TORCH_EXTENSION_NAME)() { return kbench::make_module(); }
