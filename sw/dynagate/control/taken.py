"""Names that an input of a cost cannot have: those of the solvers' own values, in the loops where both meet."""

from __future__ import annotations

_TEXT = """
a a_rows accepted ahead alpha alpha_next b b_rows bound_ease bound_ease_last bound_shift bound_shift_last
bound_weight by_u by_uu by_ux by_x by_xx converged cost cost_last cost_new cost_try cost_u cost_uu cost_ux
cost_x cost_xx costs costs_new curvature curvature_next failed fall fall_new fall_sum feeds feeds_new flat fresh
fresh_new gains gains_new good half half_u length merit miss miss_next missed missed_new most most_next open
paid penalty penalty_next pushed q0 q_end q_last q_last_new q_try qd0 qd_end qd_last qd_last_new qd_try qds
qds_new qs qs_new refused reg reg_more reg_now reg_used renewed right_new right_sum scale scaled settled
shift_last_new shift_new slope slope_next started total total_next u_try us us_new weight_new
"""
TAKEN = frozenset(_TEXT.split())
