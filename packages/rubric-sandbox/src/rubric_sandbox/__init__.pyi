from rubric_sandbox.launch import LinuxSandbox as LinuxSandbox

__version__: str
