"""The process that sandboxed programs are forked from: standard library only, so that a fork is cheap."""
