"""Objects that cannot be pickled, because they hold compiled code or a device of this process."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from dynagate.base.errors import ArgumentTypeError

Self = TypeVar("Self", bound="SharedFunction")


def refuse_pickling(value: object, makers: str, what: str = "pickled") -> NoReturn:
    """Raise ArgumentTypeError for an object that cannot be pickled.

    Args:
        value: The object.
        makers: Code that creates such an object, for the error.
        what: What was attempted.
    """
    raise ArgumentTypeError(
        f"{value!r} can't be {what}: it holds code or a device of this process. Pass the robot and the "
        f"options, and call {makers}, in the other process.",
        code="DG-ARG-044",
    )


class SharedFunction:
    """A function without a state. Copying returns the function itself, and it cannot be pickled."""

    def __copy__(self: Self) -> Self:
        return self

    def __deepcopy__(self: Self, memo: Any) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to pickle.

        Raises:
            ArgumentTypeError: Always.
        """
        framework = type(self).__module__.rpartition(".")[0]
        refuse_pickling(self, f"`{framework}.function`, or `{framework}.rollout`")
