#include "autograd/engine.hpp"
