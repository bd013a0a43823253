"""The paper's rewards and advantages, in float64."""
