// The error that a data loader raises for an exception of one of its threads.
#pragma once

#include <exception>
#include <string>

namespace torch::data {

struct WorkerException : public std::exception {
  explicit WorkerException(std::exception_ptr original) : original_exception(std::move(original)) {
    message = "Caught exception in DataLoader worker thread.";
    try {
      std::rethrow_exception(original_exception);
    } catch (const std::exception& e) {
      message += std::string(" Original message: ") + e.what();
    } catch (...) {
    }
  }
  const char* what() const noexcept override { return message.c_str(); }

  std::exception_ptr original_exception;
  std::string message;
};

}  // namespace torch::data
