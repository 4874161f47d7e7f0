"""What talks to NVML: `probe` in the agent, and the child that it forks, all the rest."""
