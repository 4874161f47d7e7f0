"""What is watched: the job file, node sets, host files, Slurm.

The package brings in neither network nor screen; `gpuwatch.job.file.read` gives a `Job`.
"""
