"""The same layout under the rank orders it was chosen over: how long each takes, what crosses each tier."""

from models.cost import candidate
from models.cost.setting import Setting
from models.estimate import OrderCost
from models.layout import Layout
from search.domains import Order


def other_orders(layout: Layout, orders: tuple[Order, ...], setting: Setting) -> tuple[OrderCost, ...]:
    """Price a layout under other orders, fastest first."""
    reports = [candidate(layout.model_copy(update={"rank_order": order}), setting) for order in orders]
    return tuple(
        OrderCost(rank_order=one.layout.rank_order, step_time_s=one.step_time_s, tiers=one.tiers)
        for one in sorted(reports, key=lambda one: one.step_time_s)
    )
