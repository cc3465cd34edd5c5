"""Controllers around the accelerator: does a format that is good enough on paper still control a robot? And models of
robots for the libraries that controllers are written with: `actions` for Crocoddyl, `casadi` for CasADi."""
