// The only exported symbols: getters of the dispatch tables. The loader rejects a driver that lacks one of these.
#include <level_zero/zet_api.h>
#include <level_zero/zet_ddi.h>

#include "tables.h"

namespace weft::testing::ze {

// Tables without an overload stay empty.
template <class Table>
void fill_table(Table&) {}

namespace {

template <class Table>
ze_result_t answer(ze_api_version_t version, Table* table) {
  if (!table) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
  if (ZE_MAJOR_VERSION(version) != ZE_MAJOR_VERSION(ZE_API_VERSION_1_4)) return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
  *table = {};
  fill_table(*table);
  return ZE_RESULT_SUCCESS;
}

}  // namespace
}  // namespace weft::testing::ze

#define WEFT_ZE_TABLE(getter, table_type)                                                                   \
  extern "C" __attribute__((visibility("default"))) ze_result_t ZE_APICALL getter(ze_api_version_t version, \
                                                                                  table_type* table) {      \
    return weft::testing::ze::answer(version, table);                                                       \
  }

WEFT_ZE_TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t)
WEFT_ZE_TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t)
WEFT_ZE_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t)
WEFT_ZE_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t)
WEFT_ZE_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
WEFT_ZE_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t)
WEFT_ZE_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t)
WEFT_ZE_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t)
WEFT_ZE_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
WEFT_ZE_TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
WEFT_ZE_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t)
WEFT_ZE_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t)
WEFT_ZE_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t)
WEFT_ZE_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
WEFT_ZE_TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
WEFT_ZE_TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
WEFT_ZE_TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)

WEFT_ZE_TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
WEFT_ZE_TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
WEFT_ZE_TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
WEFT_ZE_TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
WEFT_ZE_TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
WEFT_ZE_TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
WEFT_ZE_TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
WEFT_ZE_TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
WEFT_ZE_TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
WEFT_ZE_TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
WEFT_ZE_TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
WEFT_ZE_TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)

WEFT_ZE_TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t)
WEFT_ZE_TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
WEFT_ZE_TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
WEFT_ZE_TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
WEFT_ZE_TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
WEFT_ZE_TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
WEFT_ZE_TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
WEFT_ZE_TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
WEFT_ZE_TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
WEFT_ZE_TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
WEFT_ZE_TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
WEFT_ZE_TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
WEFT_ZE_TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
WEFT_ZE_TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
WEFT_ZE_TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
WEFT_ZE_TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
WEFT_ZE_TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
