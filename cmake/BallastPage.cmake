# Makes a source file of the server's page: serve/page/page.html as a raw string.
set(page "${PROJECT_SOURCE_DIR}/serve/page/page.html")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${page}")
file(READ "${page}" BALLAST_PAGE)
configure_file("${PROJECT_SOURCE_DIR}/serve/page/page_text.cc.in" "${PROJECT_BINARY_DIR}/page_text.cc" @ONLY)
target_sources(ballast_serve PRIVATE "${PROJECT_BINARY_DIR}/page_text.cc")
