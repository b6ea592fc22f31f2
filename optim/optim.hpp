// All of optim/: optimizers, learning rate schedules, gradient clipping and averages of parameters.
//
//   optim::AdamW optimizer(model.parameters(), {.lr = 3e-4});
//   optim::Scheduler rates(optimizer, optim::cosine_annealing_lr(1000));
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.step();
//   rates.step();
#pragma once

#include "averaging.hpp"
#include "clip_grad.hpp"
#include "gradient_merge.hpp"
#include "optimizer.hpp"
#include "optimizers.hpp"
#include "schedules.hpp"
