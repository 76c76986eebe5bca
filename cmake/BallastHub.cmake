# Makes a source file of the program that fetches from the Hub: python/ballast/_hub.py as a raw string.
set(hub_script "${PROJECT_SOURCE_DIR}/python/ballast/_hub.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${hub_script}")
file(READ "${hub_script}" BALLAST_HUB_SCRIPT)
configure_file("${PROJECT_SOURCE_DIR}/tools/hub/hub_script.cc.in" "${PROJECT_BINARY_DIR}/hub_script.cc" @ONLY)
target_sources(ballast_tools PRIVATE "${PROJECT_BINARY_DIR}/hub_script.cc")
