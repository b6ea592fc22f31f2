// Each part of the driver fills the dispatch tables of the functions it implements.
#pragma once

#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>

namespace weft::testing::ze {

void fill_table(ze_global_dditable_t& table);
void fill_table(ze_driver_dditable_t& table);
void fill_table(ze_device_dditable_t& table);
void fill_table(ze_context_dditable_t& table);
void fill_table(ze_command_queue_dditable_t& table);
void fill_table(ze_command_list_dditable_t& table);
void fill_table(ze_event_dditable_t& table);
void fill_table(ze_event_pool_dditable_t& table);
void fill_table(ze_fence_dditable_t& table);
void fill_table(ze_kernel_dditable_t& table);
void fill_table(ze_mem_dditable_t& table);
void fill_table(ze_module_dditable_t& table);
void fill_table(ze_module_build_log_dditable_t& table);
void fill_table(zes_device_dditable_t& table);
void fill_table(zes_memory_dditable_t& table);

}  // namespace weft::testing::ze
