// Stand-in for pluginlib: the plugin is made by a function of a fixed name.
#pragma once
#include <memory>
#define PLUGINLIB_EXPORT_CLASS(Class, Base) \
    std::unique_ptr<Base> made_plugin() { return std::make_unique<Class>(); }
