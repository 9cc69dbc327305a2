#pragma once

/// \file
/// The exceptions that Fulcrum raises. Every message names what was asked, the shapes or values involved, and
/// what would work. Catch `fulcrum::Error` to catch them all.

#include <stdexcept>
#include <string>

namespace fulcrum {

/// Base of every exception that Fulcrum throws on purpose.
class Error : public std::runtime_error {
  public:
    /// \param message one line that names the operation, the values involved and the way out.
    explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// Shapes that do not fit together, or a size that is out of range.
class ShapeError : public Error {
  public:
    using Error::Error;
};

/// An element type that an operation does not take.
class DTypeError : public Error {
  public:
    using Error::Error;
};

/// A device that is absent, or tensors that live on different devices.
class DeviceError : public Error {
  public:
    using Error::Error;
};

/// An argument outside its range (a negative stride, a label beyond the classes).
class ValueError : public Error {
  public:
    using Error::Error;
};

/// A device has no memory left for a request; the message tells the request, what is live and the way out.
class OutOfMemoryError : public Error {
  public:
    using Error::Error;
};

/// A misuse of the tape: a graph walked twice, a saved tensor modified in place, a gradient asked of a
/// constant.
class AutogradError : public Error {
  public:
    using Error::Error;
};

/// A file that cannot be read or written, or whose content is malformed; the message names the path.
class IoError : public Error {
  public:
    using Error::Error;
};

}  // namespace fulcrum
