#pragma once

/// \file
/// Watching module calls: the hook behind `summary`.

#include "core/tensor.h"
#include "nn/module.h"

#include <functional>

namespace fulcrum::nn {

/// While it lives, `callback` sees every finished call of a module on this thread, children before parents.
/// Observers nest; the innermost sees the call. The references are valid during the callback only.
class CallObserver {
  public:
    /// \param module the module called. \param input, output of the call.
    using Callback = std::function<void(Module& module, const Tensor& input, const Tensor& output)>;

    explicit CallObserver(Callback callback);
    ~CallObserver();
    CallObserver(const CallObserver&) = delete;
    CallObserver& operator=(const CallObserver&) = delete;

  private:
    friend class Module;
    static void notify(Module& module, const Tensor& input, const Tensor& output);

    Callback callback_;
    CallObserver* previous_;
};

}  // namespace fulcrum::nn
