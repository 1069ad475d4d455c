// The error that a call throws. Knows our errors; a call that throws none fails the test.
#pragma once

#include <gtest/gtest.h>

#include "damacy/core/error.h"

namespace damacy {

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Status::ok, "nothing was thrown");
}

}  // namespace damacy
