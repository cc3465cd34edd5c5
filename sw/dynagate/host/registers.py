"""Registers by name, over any link."""

from __future__ import annotations

from collections.abc import Mapping

from dynagate.host.links import DeviceLink, RegisterError
from dynagate.hw.rtl.regmap import WRITE, Register


class Registers:
    """The registers of a device by name. They can be read and written while a batch streams, from any thread.

    Args:
        table: The registers, as design.json lists them.

    Raises:
        RegisterError: From every method, if the table has no such register or bit. The message lists those that it has.
    """

    def __init__(self, link: DeviceLink, table: Mapping[str, Register]) -> None:
        self._link, self.table = link, dict(table)

    def read(self, name: str) -> int:
        """Read a register.

        Args:
            name: Name of the register.

        Returns:
            Its 32 bits.
        """
        return self._link.read_register(self._of(name).address)

    def bits(self, name: str) -> frozenset[str]:
        """Return the bits of a register that are 1.

        Args:
            name: Name of the register.

        Returns:
            Names of the bits.
        """
        value = self.read(name)
        return frozenset(bit for k, bit in enumerate(self._of(name).bits) if value >> k & 1)

    def write(self, name: str, value: int) -> None:
        """Write a register.

        Args:
            name: Name of the register.
            value: Its 32 bits.

        Raises:
            RegisterError: The register is read-only.
        """
        register = self._of(name)
        try:
            self._link.write_register(register.address, value)
        except RegisterError as error:
            if register.access == WRITE:
                raise
            writable = [row.name for row in self.table.values() if row.access == WRITE]
            raise RegisterError(
                f"register '{name}' is read-only; expected one of {', '.join(writable) or 'none'} ({error})",
                code="DG-LINK-039",
            ) from None

    def set(self, name: str, bit: str) -> None:
        """Write 1 to one bit of a register and 0 to the others.

        Args:
            name: Name of the register.
            bit: Name of the bit.
        """
        bits = self._of(name).bits
        if bit not in bits:
            raise RegisterError(
                f"register '{name}' has no bit '{bit}'; expected one of {', '.join(bits) or 'none'}", code="DG-LINK-040"
            )
        self.write(name, 1 << bits.index(bit))

    def _of(self, name: str) -> Register:
        if name not in self.table:
            raise RegisterError(f"no register '{name}'; expected one of {', '.join(self.table)}", code="DG-LINK-041")
        return self.table[name]
