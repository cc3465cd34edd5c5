"""Pan & Manocha, "Time Integrating Articulated Body Dynamics Using Position-Based Collocation Methods" (2018), and
"Position-Based Time-Integrator for Frictional Articulated Body Dynamics" (2019)."""
